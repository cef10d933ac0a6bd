//! YAML in and out as Helm does it.

//! The functions that Helm offers to templates, one file per family.

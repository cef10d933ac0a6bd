//! `toYamlPretty`: what go.yaml.in/yaml/v3's encoder writes with an indent of two.

use crate::template::value::Value;

/// The value as YAML with its last newline, or Go's error text.
pub fn emit_pretty(value: &Value) -> Result<Vec<u8>, String> {
    super::emit(value)
}

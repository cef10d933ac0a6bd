//! The CustomResourceDefinition of a chart, as text.

use super::error::CliError;
use super::output::as_yaml;
use crate::chart::Chart;
use crate::crd::{self, CrdSettings, Cut, Evidence, Made, Names};
use crate::release::status_fields::typed;
use std::fmt::Write as _;

/// The definition as YAML, with comments above it.
pub fn definition(
    chart: &Chart,
    names: &Names,
    settings: CrdSettings,
    evidence: &[Evidence],
) -> Result<String, CliError> {
    let fields = typed::of_chart(chart);
    let known = fields.as_deref().unwrap_or_default();
    let made = crd::of_chart(chart, names, settings, evidence, known)?;
    Ok(remarks(&made, fields.err()) + &as_yaml(&made.definition)?)
}

/// Comments above the definition: the points that its reader does not expect.
fn remarks(made: &Made, no_fields: Option<String>) -> String {
    let mut text = String::new();
    if let Some(why) = no_fields {
        let why = why.replace('\n', " ");
        let _ = writeln!(
            text,
            "# The status has no types for fields of the chart, which does not render with its default values or a values file in ci/: {why}"
        );
    }
    for opened in &made.opened {
        let path = opened.path.join(".");
        let _ =
            writeln!(text, "# spec.{path} takes any value, because {} gives it a value of another type.", opened.by);
    }
    text += match made.cut {
        Cut::Nothing => "",
        Cut::Sentences => "# Descriptions are shortened, so that kubectl apply takes the definition.\n",
        Cut::Descriptions => "# Descriptions are left out, so that kubectl apply takes the definition.\n",
        Cut::TooLarge => {
            "# The definition is too large for the annotation that kubectl apply writes: apply it with kubectl apply --server-side.\n"
        }
    };
    text
}

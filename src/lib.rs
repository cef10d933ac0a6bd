//! Tillerman turns charts into operators, and renders charts as Helm does.
pub mod chart;
pub mod render;
pub mod template;

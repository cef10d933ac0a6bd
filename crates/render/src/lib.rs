pub mod chart;
pub mod render;
pub mod template;

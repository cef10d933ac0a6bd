//! Which custom resources Tillerman serves, and with which chart.
pub mod crd;

//! The fields that are read and written in the same way for every object of Kubernetes. Nothing here knows of charts,
//! releases or the API server.

pub mod conditions;

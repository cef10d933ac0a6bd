//! What is read and written in the same way of every object of Kubernetes. Nothing here knows of charts, releases or the API server.

pub mod conditions;

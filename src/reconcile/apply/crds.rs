//! Writes the definitions of a chart that the render step selected.

use serde_json::Value;

use super::PlanRun;
use crate::cluster::client::Returned;
use crate::cluster::discovery::Resource;
use crate::plan::crds::{CrdAction, Definition};
use crate::plan::object_run::Notice;
use crate::reconcile::error::Error;
use crate::reconcile::render::crds::id;

impl PlanRun<'_> {
    /// Creates and replaces definitions. The API server serves the new kinds a moment later, so the next pass
    /// continues.
    pub async fn write_crds(&mut self) -> Result<(), Error> {
        for Definition { body, action } in &self.prepared.desired.crds {
            let id = id(body);
            match action {
                CrdAction::Await => {}
                CrdAction::Create => {
                    match self
                        .observed
                        .cluster
                        .create(&Resource::crds(), &id, &Value::Object(body.clone()), Returned::Object)
                        .await
                    {
                        Ok(_) => self.changed.push(id),
                        // Another client created it first.
                        Err(e) if e.is_conflict() => {}
                        Err(e) => return Err(e.into()),
                    }
                }
                CrdAction::Replace(new) => {
                    self.observed.cluster.replace(&Resource::crds(), &id, new, false, Returned::Object).await?;
                    let text = "it was replaced by the chart's".into();
                    self.notices.push((id.clone(), Notice { reason: "DefinitionReplaced", text, warning: false }));
                    self.changed.push(id);
                }
            }
        }
        Ok(())
    }
}

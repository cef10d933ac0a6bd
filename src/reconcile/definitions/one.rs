//! One definition: from its content to an API that is served, and back.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::verdict::Verdict;
use super::{Definitions, FIRST_LOOK, LAST_LOOK, Serving, rights};
use crate::chart::Chart;
use crate::cluster::cache::Releases;
use crate::cluster::client::Conflicts;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::crd::{self, CrdSettings, Names};
use crate::definition::{self, ChartPlace, DefinitionReason, DefinitionReport, OnDelete, Spec, status};
use crate::names::DEFINITION;
use crate::object::field_error::FieldError;
use crate::object::{Gvk, ObjectId};
use crate::plan::status::not_served;
use crate::rbac::RoleDocument;
use crate::reconcile::charts::{Loaded, Served};
use crate::reconcile::controller::serve_kind;
use crate::release::digest::Hasher;
use crate::release::owner::{FINALIZER, LEGACY_FINALIZER};
use crate::release::status_fields::typed;

impl Definitions {
    /// The steps before the chart is loaded. Returns the place that it is loaded from, or `None` if the definition has
    /// ended.
    pub(super) async fn begin(&mut self, name: &str, object: &Value) -> Result<Option<ChartPlace>, Verdict> {
        if object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
            return self.finish(name, object).await.map(|()| None);
        }
        let invalid = |why: FieldError| Verdict::new(DefinitionReason::InvalidSpec, why.to_string());
        let place = Spec::read(object).map_err(invalid)?.place(&self.settings.base).map_err(invalid)?;
        self.set_finalizer(name, object, true).await.map_err(|e| Verdict::failed(&e))?;
        Ok(Some(place))
    }

    /// Makes the API of a chart, and serves it.
    pub(super) async fn serve(
        &mut self,
        name: &str,
        object: &Value,
        chart: Result<Chart, String>,
    ) -> Result<Verdict, Verdict> {
        let invalid = |why: FieldError| Verdict::new(DefinitionReason::InvalidSpec, why.to_string());
        let spec = Spec::read(object).map_err(invalid)?;
        let unusable = |why: String| Verdict::new(DefinitionReason::ChartUnusable, why);
        let chart = chart.map_err(unusable)?;
        let names = spec.names(&chart).map_err(invalid)?;
        let kind = spec.kind(&names, &self.settings.base).map_err(invalid)?;
        let own = self.entries.get(name).and_then(|entry| entry.serving.as_ref()).map(|serving| serving.kind);
        self.check_free(&kind.gvk, own)?;
        let (chart, made) = make(chart, names.clone()).await.map_err(unusable)?;
        let mut body = made;
        body["metadata"]["labels"] = json!({DEFINITION: name});
        let mut hasher = Hasher::default();
        hasher.text(body.to_string());
        hasher.text(Value::Object(spec.policy.clone()).to_string());
        let needed = self.needed(&chart, &names, kind.service_account.is_some()).await;
        let loaded = Arc::new(Loaded::of(chart.clone(), &kind));
        hasher.text(&loaded.digest);
        let digest = hasher.finish();
        self.apply(name, &body).await?;
        self.put(name, kind, loaded, digest);
        self.entries.entry(name.to_owned()).or_default().needed = needed;
        let served = Some(Box::new((chart.metadata, names)));
        match self.ctx.discovery.resolve(&self.gvk(name)).await {
            Ok(Some(_)) => Ok(Verdict { served, ..Verdict::new(DefinitionReason::Served, "") }),
            Ok(None) => Ok(Verdict {
                served,
                ..Verdict::new(DefinitionReason::Establishing, "the API server does not serve the kind yet")
            }),
            Err(error) => Err(Verdict::failed(&error)),
        }
    }

    /// The rights that a chart needs. Without an answer the status does not mention them.
    async fn needed(&self, chart: &Chart, names: &Names, has_account: bool) -> Arc<Vec<RoleDocument>> {
        let namespaces: Vec<String> =
            self.ctx.cache.scopes().into_iter().flatten().map(|name| name.to_string()).collect();
        let (chart, names) = (chart.clone(), names.clone());
        let find = move || rights::needed(&chart, &names, has_account, namespaces);
        Arc::new(tokio::task::spawn_blocking(find).await.unwrap_or_default())
    }

    /// Asks whether the operator has the rights that the chart of a definition needs, and says so in the definition's
    /// status. If it does not, the operator asks again after a while.
    pub(super) async fn look_at_rights(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.serving.is_some()) else { return };
        let pause = entry.look_at.take().map_or(FIRST_LOOK, |(_, pause)| (pause * 2).min(LAST_LOOK));
        let needed = Arc::clone(&entry.needed);
        // Each chart needs some: without any, they could not be found out.
        if needed.is_empty() {
            return;
        }
        let missing = match rights::missing(&self.ctx.cluster, &needed).await {
            Ok(missing) => missing,
            Err(error) => {
                tracing::debug!(definition = name, %error, "the operator's rights cannot be looked up");
                return;
            }
        };
        if let (Some(entry), true) =
            (self.entries.get_mut(name), missing.as_ref().is_some_and(|rules| !rules.is_empty()))
        {
            entry.look_at = Some((tokio::time::Instant::now() + pause, pause));
        }
        // The status may be newer than the state that the watch has seen.
        let (resource, id) = address(name);
        let Ok(Some(object)) = self.ctx.cluster.get(&resource, &id).await else { return };
        let old: Map<String, Value> = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let new =
            definition::permitted(&old, generation, &format!("{:.0}", jiff::Timestamp::now()), missing.as_deref());
        if new != old {
            let patch = json!({"metadata": {"uid": object["metadata"]["uid"]}, "status": new});
            if let Err(error) = self.ctx.cluster.merge::<Value>(&resource, &id, &patch, Some("status")).await {
                tracing::warn!(definition = name, %error, "the status of a definition cannot be written");
            }
        }
    }

    fn gvk(&self, name: &str) -> Gvk {
        let serving = self.entries.get(name).and_then(|entry| entry.serving.as_ref());
        serving.map_or_else(definition::gvk, |serving| self.ctx.kinds.get(serving.kind).gvk().clone())
    }

    /// Whether no other definition serves a kind.
    fn check_free(&self, gvk: &Gvk, own: Option<usize>) -> Result<(), Verdict> {
        let retired = |kind: usize| self.ctx.cache.is_retired(kind);
        let same = |(kind, served): (usize, Arc<Served>)| {
            let other = served.gvk();
            (other.group == gvk.group && other.kind == gvk.kind && Some(kind) != own && !retired(kind)).then_some(kind)
        };
        let other = self.ctx.kinds.all().into_iter().enumerate().find_map(same);
        match other {
            Some(_) => Err(Verdict::new(
                DefinitionReason::Conflict,
                format!(
                    "the kind {} of group {} is served already, for watches.yaml or another definition",
                    gvk.kind, gvk.group
                ),
            )),
            None => Ok(()),
        }
    }

    /// Applies the definition of the API, unless another client made one of its name.
    async fn apply(&self, name: &str, body: &Value) -> Result<(), Verdict> {
        let resource = Resource::crds();
        let id = ObjectId {
            gvk: resource.gvk.clone(),
            namespace: None,
            name: body["metadata"]["name"].as_str().unwrap_or_default().into(),
        };
        let existing = self.ctx.cluster.get(&resource, &id).await.map_err(|e| Verdict::failed(&e))?;
        if let Some(existing) = existing
            && existing["metadata"]["labels"][DEFINITION] != name
        {
            return Err(Verdict::new(
                DefinitionReason::Conflict,
                format!(
                    "the CustomResourceDefinition {} exists and does not belong to this definition. To change that: \
                     kubectl label crd {} {DEFINITION}={name}",
                    id.name, id.name
                ),
            ));
        }
        let applied = self.ctx.cluster.apply(&resource, &id, body, Conflicts::Force).await;
        applied.map(drop).map_err(|error| Verdict::failed(&error))
    }

    /// Serves a kind with a chart, if it is not served so already.
    fn put(&mut self, name: &str, kind: crate::kind::Kind, loaded: Arc<Loaded>, digest: String) {
        let entry = self.entries.entry(name.to_owned()).or_default();
        if entry.serving.as_ref().is_some_and(|serving| serving.digest == digest) {
            return;
        }
        let ctx = &self.ctx;
        let gvk = kind.gvk.clone();
        let before = entry.serving.take();
        let same =
            before.as_ref().filter(|serving| *ctx.kinds.get(serving.kind).gvk() == gvk).map(|serving| serving.kind);
        if let Some(before) = &before {
            before.stop.cancel();
            if same.is_none() {
                ctx.cache.retire(before.kind);
            }
        }
        let known = ctx.kinds.all().iter().position(|served| *served.gvk() == gvk);
        let (releases, served) = (Releases::of(&kind), Served::defined(name, kind, loaded));
        ctx.metrics.set_workers(&served.controller, 1);
        ctx.metrics.set_chart_usable(&gvk, true);
        let number = if let Some(number) = known {
            ctx.kinds.replace(number, served);
            ctx.cache.revive(number, releases);
            number
        } else {
            ctx.cache.add_kind(&gvk, releases);
            ctx.kinds.add(served)
        };
        let stop = ctx.tasks.stop().child_token();
        // Somebody has deleted the definition of the API: it is made again.
        let (changed, named) = (self.changed.clone(), name.to_owned());
        let gone = move || drop(changed.send(named.clone()));
        let task = serve_kind(Arc::clone(ctx), number, ctx.tasks.clone(), stop.clone(), gone);
        ctx.tasks.spawn(format!("custom resources of {gvk}"), task);
        ctx.queue.add_all(ctx.cache.keys_of(number));
        ctx.rollouts.notify_one();
        entry.serving = Some(Serving { kind: number, stop, digest });
    }

    /// The end of a definition: its API is deleted when no custom resource uses it, or stays without it.
    async fn finish(&mut self, name: &str, object: &Value) -> Result<(), Verdict> {
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        if !finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == DEFINITION)) {
            return Ok(());
        }
        let on_delete = Spec::read(object).map(|spec| spec.on_delete).unwrap_or_default();
        let selector = format!("{DEFINITION}={name}");
        let crds = Resource::crds();
        let found = self.ctx.cluster.list_all(&crds, &selector).await.map_err(|e| Verdict::failed(&e))?;
        for definition in found {
            let text =
                |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let id = ObjectId { gvk: crds.gvk.clone(), namespace: None, name: text("/metadata/name").as_str().into() };
            let resource = Resource {
                gvk: Gvk::new(&text("/spec/group"), &text("/spec/versions/0/name"), &text("/spec/names/kind")),
                plural: text("/spec/names/plural").as_str().into(),
                namespaced: text("/spec/scope") == "Namespaced",
            };
            let used = self.ctx.cluster.list_all(&resource, "").await;
            if on_delete == OnDelete::Orphan {
                self.end_of(name);
                for left in used.map_err(|e| Verdict::failed(&e))? {
                    self.leave(name, &resource, &left).await.map_err(|e| Verdict::failed(&e))?;
                }
                let patch = json!({"metadata": {"labels": {DEFINITION: null}}});
                let merged = self.ctx.cluster.merge::<Value>(&crds, &id, &patch, None).await;
                merged.map_err(|e| Verdict::failed(&e))?;
                continue;
            }
            let used = used.map_err(|e| Verdict::failed(&e))?.len();
            if used > 0 {
                let (are, them) =
                    if used == 1 { ("custom resource exists", "it") } else { ("custom resources exist", "them") };
                return Err(Verdict::new(
                    DefinitionReason::CustomResourcesExist,
                    format!(
                        "{used} {are} of kind {}: delete {them}, or set spec.onDelete to Orphan",
                        resource.gvk.kind
                    ),
                ));
            }
            let deleted = self.ctx.cluster.delete(&crds, &id, Some(&text("/metadata/uid")), false).await;
            deleted.map_err(|e| Verdict::failed(&e))?;
        }
        self.end_of(name);
        self.set_finalizer(name, object, false).await.map_err(|e| Verdict::failed(&e))
    }

    /// Serves the custom resources of a definition no more, if it does.
    fn end_of(&mut self, name: &str) {
        if let Some(serving) = self.entries.get_mut(name).and_then(|entry| entry.serving.take()) {
            self.end(&serving);
        }
    }

    /// Leaves a custom resource that no operator serves now: its deletion waits for no operator, and its status says
    /// so.
    async fn leave(&self, name: &str, resource: &Resource, found: &Value) -> Result<(), ApiError> {
        let text = |pointer: &str| found.pointer(pointer).and_then(Value::as_str);
        let id = ObjectId {
            gvk: resource.gvk.clone(),
            namespace: text("/metadata/namespace").map(Into::into),
            name: text("/metadata/name").unwrap_or_default().into(),
        };
        let uid = &found["metadata"]["uid"];
        let ours = |finalizer: &&Value| *finalizer == FINALIZER || *finalizer == LEGACY_FINALIZER;
        let held = found.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if held.iter().any(|finalizer| ours(&finalizer)) {
            let finalizers: Vec<&Value> = held.iter().filter(|finalizer| !ours(finalizer)).collect();
            let version = &found["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"uid": uid, "resourceVersion": version, "finalizers": finalizers}});
            or_gone(self.ctx.cluster.merge::<Value>(resource, &id, &patch, None).await)?;
        }
        let old: Map<String, Value> = found.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        let generation = found.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let status = not_served(&old, generation, &format!("{:.0}", jiff::Timestamp::now()), name);
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        or_gone(self.ctx.cluster.merge::<Value>(resource, &id, &patch, Some("status")).await)
    }

    /// Adds our finalizer, or removes it.
    async fn set_finalizer(&self, name: &str, object: &Value, wanted: bool) -> Result<(), ApiError> {
        let old = object.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut new: Vec<Value> = old.iter().filter(|finalizer| *finalizer != DEFINITION).cloned().collect();
        if wanted {
            new.push(DEFINITION.into());
        }
        if wanted && old.iter().any(|finalizer| finalizer == DEFINITION) {
            return Ok(());
        }
        let metadata = json!({"uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"], "finalizers": new});
        let (resource, id) = address(name);
        self.ctx.cluster.merge::<Value>(&resource, &id, &json!({"metadata": metadata}), None).await.map(drop)
    }

    /// Writes the status if it has changed. Returns whether it is stored.
    pub(super) async fn report(&self, name: &str, object: &Value, verdict: &Verdict) -> bool {
        let old: Map<String, Value> = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        let new = status(
            &old,
            &DefinitionReport {
                generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
                now: &format!("{:.0}", jiff::Timestamp::now()),
                reason: verdict.reason,
                message: &verdict.message,
                served: verdict.served.as_deref().map(|(chart, names)| (chart, names)),
            },
        );
        if new == old {
            return true;
        }
        match verdict.reason {
            DefinitionReason::Served => tracing::info!(definition = name, "a definition of a chart is served"),
            reason => {
                tracing::warn!(
                    definition = name,
                    reason = reason.word(),
                    message = verdict.message,
                    "a definition of a chart is not served"
                );
            }
        }
        let (resource, id) = address(name);
        let patch = json!({"metadata": {"uid": object["metadata"]["uid"]}, "status": new});
        match self.ctx.cluster.merge::<Value>(&resource, &id, &patch, Some("status")).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(definition = name, %error, "the status of a definition cannot be written");
                false
            }
        }
    }
}

/// A definition that is gone needs no patch.
fn or_gone(answer: Result<Value, ApiError>) -> Result<(), ApiError> {
    match answer {
        Err(error) if error.is_not_found() => Ok(()),
        answer => answer.map(drop),
    }
}

fn address(name: &str) -> (Resource, ObjectId) {
    let gvk = definition::gvk();
    let id = ObjectId { gvk: gvk.clone(), namespace: None, name: name.into() };
    (Resource { gvk, plural: definition::PLURAL.into(), namespaced: false }, id)
}

/// Makes the definition of a chart's API, off the threads that keep the lease.
async fn make(chart: Chart, names: Names) -> Result<(Chart, Value), String> {
    let make = move || {
        let evidence = crd::carried(&chart);
        // Without its types a field of the status still appears.
        let fields = typed::of_chart(&chart).unwrap_or_default();
        let made = crd::of_chart(&chart, &names, CrdSettings::default(), &evidence, &fields)?;
        Ok((chart, made.definition))
    };
    tokio::task::spawn_blocking(make)
        .await
        .unwrap_or_else(|_| Err("the chart's API cannot be made: internal error".to_owned()))
}

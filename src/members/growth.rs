//! Volumes of members that grow by themselves: when, and to which size.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::workload::{VolumeClaim, Workload};
use crate::agent::contract::VolumeSpace;
use crate::object::quantity;
use crate::release::document::DocumentFields;

/// Seconds between two steps of one claim. A provider can refuse more: AWS takes one change of a volume in six hours.
const PAUSE: i64 = 3600;
/// The percentage that is used by default before a volume grows.
const AT_PERCENT: u64 = 80;
/// The step by which a volume grows, by default.
const BY: &str = "20%";

/// How the volumes of a stateful set grow by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeGrowth {
    /// The name of the claim template.
    pub claim: String,
    /// A volume grows if this percentage of it is used.
    pub at_percent: u64,
    pub by: GrowthStep,
    /// The bytes that a volume has at most.
    pub max: u64,
}

/// The step by which a volume grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrowthStep {
    /// A part of its size.
    Percent(u64),
    Bytes(u64),
}

/// A claim that becomes larger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargerClaim {
    pub name: std::sync::Arc<str>,
    pub uid: Box<str>,
    /// Its new size, as a quantity.
    pub size: String,
    /// Why, in words.
    pub why: String,
}

impl VolumeGrowth {
    /// Reads `spec.volumes.grow` of a Members document. The error is a sentence.
    pub fn read(value: Option<Value>) -> Result<Option<Self>, String> {
        let at = "spec.volumes.grow";
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
        let mut fields = DocumentFields::of(at, Some(value), &["claim", "atPercent", "by", "max"])?;
        let claim =
            fields.text("claim")?.ok_or_else(|| format!("{at}.claim, the name of a claim template, is missing"))?;
        let at_percent = match fields.take("atPercent") {
            None => AT_PERCENT,
            Some(value) => value
                .as_u64()
                .filter(|percent| (50..=95).contains(percent))
                .ok_or_else(|| format!("{at}.atPercent must be a whole number from 50 to 95"))?,
        };
        let by = fields.text("by")?.unwrap_or_else(|| BY.to_owned());
        let step = match by.strip_suffix('%') {
            Some(percent) => {
                percent.parse().ok().filter(|percent| (5..=100).contains(percent)).map(GrowthStep::Percent)
            }
            None => quantity::bytes(&by).filter(|bytes| *bytes >= 1 << 20).map(GrowthStep::Bytes),
        };
        let by = step.ok_or_else(|| format!("{at}.by must be a part from 5% to 100%, or a size such as 10Gi"))?;
        let max = fields.text("max")?.ok_or_else(|| format!("{at}.max, the largest size of a volume, is missing"))?;
        let max = quantity::bytes(&max).filter(|max| *max > 0);
        let max = max.ok_or_else(|| format!("{at}.max must be a size such as 100Gi"))?;
        Ok(Some(Self { claim, at_percent, by, max }))
    }

    /// The next claim that becomes larger. A claim becomes as large as the largest of the others, so that a copy of the data has room, and
    /// grows when it is full enough; once in an hour. `now` is in seconds since 1970.
    pub fn next(&self, workload: &Workload, uses: &BTreeMap<u32, VolumeSpace>, now: i64) -> Option<LargerClaim> {
        let claims = || {
            workload
                .claims
                .iter()
                .flat_map(|(ordinal, claims)| claims.iter().map(move |claim| (*ordinal, claim)))
                .filter(|(ordinal, claim)| {
                    *claim.size.template == *self.claim && !claim.terminating && workload.pods.contains_key(ordinal)
                })
        };
        let largest = claims().map(|(_, claim)| claim.size.requested).max()?.min(self.max);
        claims().find_map(|(ordinal, claim)| {
            let size = &claim.size;
            // Without a volume, or before the last request is fulfilled, nobody can grow it.
            if size.capacity == 0 || size.requested > size.capacity {
                return None;
            }
            // It has just grown, or was refused.
            if size.grown.is_some_and(|grown| now.saturating_sub(grown) < PAUSE) {
                return None;
            }
            if size.requested < largest {
                return Some(larger(claim, largest, "another member has a volume of this size".to_owned()));
            }
            let volume = uses.get(&ordinal)?;
            let percent = volume.used.saturating_mul(100).checked_div(volume.capacity)?;
            if percent < self.at_percent || size.requested >= self.max {
                return None;
            }
            let by = match self.by {
                GrowthStep::Percent(percent) => size.requested / 100 * percent,
                GrowthStep::Bytes(bytes) => bytes,
            };
            let wanted = size.requested.saturating_add(by).min(self.max);
            Some(larger(claim, wanted, format!("{percent}% of its volume is used")))
        })
    }
}

fn larger(claim: &VolumeClaim, size: u64, why: String) -> LargerClaim {
    LargerClaim { name: claim.name.clone(), uid: claim.uid.clone(), size: quantity::mebibytes(size), why }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::{GrowthStep, VolumeGrowth};
    use crate::agent::contract::VolumeSpace;
    use crate::members::workload::{ClaimSize, Pod, VolumeClaim, Workload};

    const GIB: u64 = 1 << 30;

    fn claim(ordinal: u32, requested: u64, capacity: u64, grown: Option<i64>) -> VolumeClaim {
        VolumeClaim {
            name: format!("data-db-{ordinal}").into(),
            uid: "u".into(),
            created: 0,
            terminating: false,
            lost: false,
            size: ClaimSize { template: "data".into(), requested: requested * GIB, capacity: capacity * GIB, grown },
        }
    }

    /// The claim that becomes larger, of claims whose members use so many percent.
    fn next(by: GrowthStep, claims: &[(VolumeClaim, Option<u64>)]) -> Option<String> {
        let growth = VolumeGrowth { claim: "data".into(), at_percent: 80, by, max: 20 * GIB };
        let mut workload = Workload::example(3);
        let mut uses = BTreeMap::new();
        for (ordinal, (claim, percent)) in (0..).zip(claims) {
            workload.pods.insert(ordinal, Pod::example());
            if let Some(percent) = percent {
                let capacity = claim.size.capacity;
                uses.insert(ordinal, VolumeSpace { capacity, used: capacity.div_ceil(100) * percent });
            }
            workload.claims.insert(ordinal, vec![claim.clone()]);
        }
        growth.next(&workload, &uses, 10_000).map(|larger| format!("{} {}: {}", larger.name, larger.size, larger.why))
    }

    #[test]
    fn a_claim_grows_when_it_is_full_and_the_others_follow() {
        let percent = GrowthStep::Percent(20);
        let full = |grown| [(claim(0, 10, 10, grown), Some(80)), (claim(1, 10, 10, None), Some(10))];
        let grows = Some("data-db-0 12288Mi: 80% of its volume is used".to_owned());
        assert_eq!(next(percent, &full(None)), grows);
        assert_eq!(next(GrowthStep::Bytes(GIB), &full(None)).unwrap(), "data-db-0 11264Mi: 80% of its volume is used");
        // Once in an hour.
        assert_eq!(next(percent, &full(Some(10_000 - 3599))), None);
        assert_eq!(next(percent, &full(Some(10_000 - 3600))), grows);
        // The others follow at once, also while the first one is not larger yet.
        let follows = [(claim(0, 12, 10, Some(9999)), Some(80)), (claim(1, 10, 10, None), Some(10))];
        assert_eq!(next(percent, &follows).unwrap(), "data-db-1 12288Mi: another member has a volume of this size");
        for (claims, why) in [
            (vec![(claim(0, 12, 12, None), None), (claim(1, 10, 10, Some(9999)), None)], "it was just refused"),
            (vec![(claim(0, 10, 10, None), Some(79))], "it is not full"),
            (vec![(claim(0, 10, 10, None), None)], "its member gives no answer"),
            (vec![(claim(0, 12, 10, None), Some(99))], "the last step is not done"),
            (vec![(claim(0, 10, 0, None), Some(99))], "it has no volume"),
            (vec![(claim(0, 20, 20, None), Some(99))], "it has the largest size"),
            (vec![(claim(0, 30, 30, None), Some(99)), (claim(1, 20, 20, None), Some(1))], "nothing passes the limit"),
        ] {
            assert_eq!(next(percent, &claims), None, "{why}");
        }
        assert_eq!(
            next(percent, &[(claim(0, 19, 19, None), Some(99))]).unwrap(),
            "data-db-0 20480Mi: 99% of its volume is used"
        );
        let other = VolumeClaim {
            size: ClaimSize { template: "logs".into(), ..claim(0, 9, 9, None).size },
            ..claim(0, 9, 9, None)
        };
        assert_eq!(next(percent, &[(other, Some(99))]), None, "another template");
        let going = VolumeClaim { terminating: true, ..claim(0, 9, 9, None) };
        assert_eq!(next(percent, &[(going, Some(99))]), None, "it is deleted");
    }

    #[test]
    fn the_settings_are_checked() {
        let read = |value: Value| VolumeGrowth::read(Some(value));
        assert_eq!(VolumeGrowth::read(None), Ok(None));
        assert_eq!(read(Value::Null), Ok(None));
        let expected =
            VolumeGrowth { claim: "data".into(), at_percent: 80, by: GrowthStep::Percent(20), max: 100 * GIB };
        assert_eq!(read(json!({"claim": "data", "max": "100Gi"})), Ok(Some(expected.clone())));
        let of =
            |percent: Value, by: &str| read(json!({"claim": "data", "max": "100Gi", "atPercent": percent, "by": by}));
        assert_eq!(
            of(90.into(), "1Gi"),
            Ok(Some(VolumeGrowth { at_percent: 90, by: GrowthStep::Bytes(GIB), ..expected }))
        );
        for (value, error) in [
            (json!([]), "spec.volumes.grow is not an object"),
            (json!({"claim": "data"}), "spec.volumes.grow.max, the largest size of a volume, is missing"),
            (json!({"max": "1Gi"}), "spec.volumes.grow.claim, the name of a claim template, is missing"),
            (json!({"claim": "data", "max": "much"}), "spec.volumes.grow.max must be a size such as 100Gi"),
            (json!({"claim": "data", "max": "0"}), "spec.volumes.grow.max must be a size such as 100Gi"),
        ] {
            assert_eq!(read(value).unwrap_err(), error);
        }
        for percent in [json!(49), json!(96), json!("80"), json!(80.5)] {
            assert_eq!(
                of(percent, "20%").unwrap_err(),
                "spec.volumes.grow.atPercent must be a whole number from 50 to 95"
            );
        }
        for by in ["4%", "101%", "%", "x", "1", "-1Gi"] {
            assert_eq!(
                of(80.into(), by).unwrap_err(),
                "spec.volumes.grow.by must be a part from 5% to 100%, or a size such as 10Gi",
                "{by}"
            );
        }
    }
}

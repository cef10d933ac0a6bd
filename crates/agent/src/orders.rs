//! Orders that an agent refuses without a look at its database (docs/design/primary.md#requests).

use super::contract::{At, Reason, Refusal, Verb};
use super::names::{is_host, is_member};
use super::store::Obeyed;

/// Refuses an order that is older than one that was obeyed, one for other data than `data`, and one whose texts are wrong.
pub fn check(verb: &Verb, obeyed: &Obeyed, data: Option<&str>) -> Result<(), Refusal> {
    let Some((at, ordered)) = verb.order() else { return Ok(()) };
    is_recent(at, obeyed)?;
    let fits = match verb {
        Verb::Seed(_) => data.is_none_or(|data| data == ordered),
        _ => data == Some(ordered),
    };
    if !fits {
        return Err(Refusal::new(Reason::OtherData, "the data here is not the data that the order names"));
    }
    match verb {
        Verb::Promote(order) if !order.admitted.iter().all(|name| is_member(name)) => {
            Err(Refusal::new(Reason::Invalid, "admitted: a name of a member is a DNS label"))
        }
        Verb::Follow(order) if !is_host(&order.source) => {
            Err(Refusal::new(Reason::Invalid, "source: this is neither an address nor a DNS name"))
        }
        _ => Ok(()),
    }
}

fn is_recent(at: At, obeyed: &Obeyed) -> Result<(), Refusal> {
    if !at.is_before(obeyed.at()) {
        return Ok(());
    }
    if at.epoch < obeyed.epoch {
        return Err(Refusal::new(Reason::StaleEpoch, &format!("epoch {} was obeyed already", obeyed.epoch)));
    }
    let message = format!("order {} of epoch {} was obeyed already", obeyed.number, obeyed.epoch);
    Err(Refusal::new(Reason::StaleOrder, &message))
}

#[cfg(test)]
mod tests {
    use super::{check, is_recent};
    use crate::contract::{At, Order, Promote, Reason, Seed, Verb};
    use crate::store::Obeyed;

    #[test]
    fn an_order_that_is_older_than_one_that_was_obeyed_is_refused() {
        let obeyed = Obeyed { epoch: 2, number: 5, promoted: None };
        for (epoch, number, reason) in [
            (2, Some(5), None),
            (2, Some(6), None),
            (3, Some(0), None),
            (2, Some(4), Some(Reason::StaleOrder)),
            (1, Some(9), Some(Reason::StaleEpoch)),
            // Of an operator that is older than numbers.
            (2, None, None),
            (3, None, None),
            (1, None, Some(Reason::StaleEpoch)),
        ] {
            let refused = is_recent(At { epoch, number }, &obeyed).err().map(|refusal| refusal.reason);
            assert_eq!(refused, reason, "{epoch} {number:?}");
        }
    }

    #[test]
    fn an_order_for_other_data_or_with_wrong_texts_is_refused() {
        let obeyed = Obeyed::default();
        let reason = |verb: &Verb, data| check(verb, &obeyed, data).err().map(|refusal| refusal.reason);
        let fence = Verb::Fence(Order { epoch: 1, number: None, data: "u".into() });
        assert_eq!(reason(&fence, Some("u")), None);
        assert_eq!(reason(&fence, Some("v")), Some(Reason::OtherData));
        assert_eq!(reason(&fence, None), Some(Reason::OtherData));
        let seed =
            Verb::Seed(Seed { epoch: 1, number: None, data: "u".into(), donor: "http://a".into(), discard: None });
        assert_eq!((reason(&seed, None), reason(&seed, Some("v"))), (None, Some(Reason::OtherData)));
        let admits = |name: &str| {
            let admitted = vec![name.to_owned()];
            Verb::Promote(Promote { epoch: 1, number: None, data: "u".into(), acks: 0, admitted })
        };
        assert_eq!(reason(&admits("db-1"), Some("u")), None);
        assert_eq!(reason(&admits("db'1"), Some("u")), Some(Reason::Invalid));
    }

    #[test]
    fn an_order_is_noted_with_its_number_and_one_without_leaves_it() {
        let mut obeyed = Obeyed { epoch: 2, number: 5, promoted: Some(1) };
        for (epoch, number, expected) in
            [(2, None, (2, 5)), (2, Some(7), (2, 7)), (3, None, (3, 0)), (3, Some(4), (3, 4))]
        {
            obeyed.note(At { epoch, number });
            assert_eq!((obeyed.epoch, obeyed.number, obeyed.promoted), (expected.0, expected.1, Some(1)));
        }
    }
}

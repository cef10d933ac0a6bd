//! The events that a notice can be about. `docs/how-to/notices.md` has this table.

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`EVENTS` says it")]
pub enum NoticeEvent {
    Installed,
    Upgraded,
    RolledBack,
    Uninstalled,
    Failed,
    RightMissing,
    CertificateMissing,
    Stalled,
    NotReady,
    Ready,
    DriftRepaired,
    Contested,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    VolumeEnlarged,
    VolumeNotEnlarged,
    PrimaryChanged,
    OperationSucceeded,
    OperationFailed,
    ResultSucceeded,
    ResultFailed,
    PodStarted,
    PodStopped,
    PodCrashed,
    PodOutOfMemory,
    Recovered,
}

/// The facts about an event.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub event: NoticeEvent,
    /// Its name in `spec.events`.
    pub name: &'static str,
    /// Whether a notice without `spec.events` is about it.
    pub by_default: bool,
    /// When it happens, as Markdown.
    pub meaning: &'static str,
}

const fn known(event: NoticeEvent, name: &'static str, by_default: bool, meaning: &'static str) -> Known {
    Known { event, name, by_default, meaning }
}

/// All events. [`NoticeEvent::Recovered`] is the last: it cannot be chosen, because the end of a reported problem is always
/// reported.
pub const EVENTS: [Known; 27] = [
    known(NoticeEvent::Installed, "Installed", true, "The API server has taken the objects of a new release."),
    known(NoticeEvent::Upgraded, "Upgraded", true, "A release has a new revision."),
    known(
        NoticeEvent::RolledBack,
        "RolledBack",
        true,
        "An upgrade failed permanently, and the release is back at the last good revision.",
    ),
    known(NoticeEvent::Uninstalled, "Uninstalled", true, "The custom resource is gone."),
    known(
        NoticeEvent::Failed,
        "Failed",
        true,
        "An installation, upgrade, repair or removal failed. It is tried again.",
    ),
    known(NoticeEvent::RightMissing, "RightMissing", true, "The operator lacks a right."),
    known(
        NoticeEvent::CertificateMissing,
        "CertificateMissing",
        true,
        "A `Certificate` of the release has not been issued, or has been invalid, for five minutes.",
    ),
    known(NoticeEvent::Stalled, "Stalled", true, "The operator has given up until something changes."),
    known(
        NoticeEvent::NotReady,
        "NotReady",
        true,
        "The release is not ready, and not on its way to be: an object failed or is missing, members have a problem, a Secret lacks a key.",
    ),
    known(NoticeEvent::Ready, "Ready", false, "The release became ready."),
    known(
        NoticeEvent::DriftRepaired,
        "DriftRepaired",
        true,
        "The operator restored objects that somebody changed or deleted.",
    ),
    known(NoticeEvent::Contested, "Contested", true, "Another client writes the same fields again and again."),
    known(NoticeEvent::MemberJoined, "MemberJoined", true, "A member of a StatefulSet with members joined."),
    known(NoticeEvent::MemberLeft, "MemberLeft", true, "A member left."),
    known(
        NoticeEvent::MemberReplaced,
        "MemberReplaced",
        true,
        "A member has a new volume: the data of the old one was lost or given up.",
    ),
    known(
        NoticeEvent::VolumeEnlarged,
        "VolumeEnlarged",
        true,
        "The operator requested a larger volume, because the volume of a member is nearly full.",
    ),
    known(
        NoticeEvent::VolumeNotEnlarged,
        "VolumeNotEnlarged",
        true,
        "A volume is nearly full, and the API server refused a larger one. It is tried again after an hour.",
    ),
    known(
        NoticeEvent::PrimaryChanged,
        "PrimaryChanged",
        true,
        "Another member is the primary: after a fail-over or a switch-over.",
    ),
    known(
        NoticeEvent::OperationSucceeded,
        "OperationSucceeded",
        false,
        "An operation, such as a scheduled backup, is done.",
    ),
    known(NoticeEvent::OperationFailed, "OperationFailed", true, "An operation failed or was refused."),
    known(
        NoticeEvent::ResultSucceeded,
        "ResultSucceeded",
        false,
        "The pod of a custom resource that represents a run, such as `EtcdBackup`, succeeded.",
    ),
    known(NoticeEvent::ResultFailed, "ResultFailed", true, "The pod of such a custom resource failed."),
    known(
        NoticeEvent::PodStarted,
        "PodStarted",
        false,
        "A pod of a workload of the release became ready for the first time.",
    ),
    known(NoticeEvent::PodStopped, "PodStopped", false, "A pod that had started ended or is gone."),
    known(
        NoticeEvent::PodCrashed,
        "PodCrashed",
        false,
        "A container of a pod ended with an exit code that is not 0, or the pod failed.",
    ),
    known(
        NoticeEvent::PodOutOfMemory,
        "PodOutOfMemory",
        false,
        "A container of a pod used more memory than its limit.",
    ),
    known(NoticeEvent::Recovered, "Recovered", true, "A reported problem is over. Always sent."),
];

impl NoticeEvent {
    pub fn name(self) -> &'static str {
        EVENTS.iter().find(|known| known.event == self).map_or("", |known| known.name)
    }

    /// The event of a name that `spec.events` can have.
    pub fn parse(name: &str) -> Option<Self> {
        EVENTS.iter().find(|known| known.name == name && known.event != Self::Recovered).map(|known| known.event)
    }

    /// Whether it is about pods, which are watched only where a notice asks for it.
    pub fn is_of_pods(self) -> bool {
        matches!(self, Self::PodStarted | Self::PodStopped | Self::PodCrashed | Self::PodOutOfMemory)
    }

    /// Whether it is bad news.
    pub fn is_bad(self) -> bool {
        !matches!(
            self,
            Self::Installed
                | Self::Upgraded
                | Self::Uninstalled
                | Self::Ready
                | Self::DriftRepaired
                | Self::MemberJoined
                | Self::MemberLeft
                | Self::VolumeEnlarged
                | Self::OperationSucceeded
                | Self::ResultSucceeded
                | Self::PodStarted
                | Self::PodStopped
                | Self::Recovered
        )
    }
}

#[cfg(test)]
mod tests {
    use super::EVENTS;

    #[test]
    fn the_document_has_the_table() {
        let text = include_str!("../../docs/how-to/notices.md");
        for known in EVENTS {
            let mark = if known.by_default { "●" } else { "" };
            let row = format!("| `{}` | {mark} | {} |\n", known.name, known.meaning);
            assert!(text.contains(&row), "docs/how-to/notices.md lacks {row}");
        }
    }

    #[test]
    fn each_event_has_a_test_that_exists() {
        let page = include_str!("../../docs/design/notices.md");
        let tests = [
            include_str!("../../tests/operator/notices.rs"),
            include_str!("../../tests/operator/notice_events.rs"),
            include_str!("../../tests/node/notices.rs"),
        ];
        for known in EVENTS {
            let name = format!("`{}`", known.name);
            let mut rows =
                page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once(" | "));
            let (_, row) = rows.find(|(events, _)| format!("`{events}").contains(&name)).expect(known.name);
            let test = row.rsplit_once(" | `").and_then(|(_, test)| test.strip_suffix('`')).expect(known.name);
            let of = tests.iter().filter(|text| text.contains(&format!("fn {test}()"))).collect::<Vec<_>>();
            assert!(of.iter().any(|text| text.contains(known.name)), "{name}: no test {test} is about it");
        }
    }
}

//! Alarms, and files with holes (docs/design/members.md).

use super::decide::decide;
use super::decide_tests::{call, removes, stopped};
use super::driver::volumes;
use super::state::{Alarm, AlarmKind, Call, Defragmentation, EtcdAction, EtcdStep, NoSpace, ObservedEtcd, Reclaimed};
use super::world_tests::World;
use crate::agent::contract::VolumeSpace;
use crate::members::driver::MemberStep;

const MIB: u64 = 1 << 20;

/// Three members at rest, of which the first is the leader, with files of 200 MiB, of which this much is in use.
fn with_files(used: u64) -> (World, ObservedEtcd) {
    let mut world = World::grown(3);
    world.leader = world.member(0).unwrap().id;
    let mut observed = world.observed();
    for answer in observed.answers.values_mut() {
        (answer.size, answer.used, answer.quota) = (200 * MIB, used * MIB, Some(200 * MIB));
    }
    (world, observed)
}

fn decided(world: &World, observed: &ObservedEtcd) -> EtcdStep {
    decide(&world.settings, &world.workload(), observed, &world.target, &world.noted(observed), world.now)
}

fn with_alarm(world: &World, observed: &mut ObservedEtcd, ordinal: u32, kind: AlarmKind) -> Alarm {
    let alarm = Alarm { member: world.member(ordinal).unwrap().id, kind };
    for answer in observed.answers.values_mut() {
        answer.alarms.push(alarm);
    }
    alarm
}

fn defragmented(step: EtcdStep) -> u32 {
    match step {
        MemberStep::Act(EtcdAction::Call { call: Call::Defragment { ordinal, .. }, via, .. }) => {
            assert_eq!(ordinal, via, "it is the member itself that is called");
            ordinal
        }
        other => panic!("nothing is defragmented: {other:?}"),
    }
}

#[test]
fn files_with_holes_are_defragmented_one_by_one_and_the_leaders_last() {
    let (mut world, mut observed) = with_files(100);
    assert_eq!(decided(&world, &observed), MemberStep::Quiet, "nobody requested it");
    world.settings.defragmentation = Some(Defragmentation { fragmented_percent: 50, minimum_size: 200 * MIB });
    for expected in [2, 1, 0] {
        let ordinal = defragmented(decided(&world, &observed));
        assert_eq!(ordinal, expected);
        observed.answers.get_mut(&ordinal).unwrap().size = 100 * MIB;
    }
    assert_eq!(decided(&world, &observed), MemberStep::Quiet);
}

#[test]
fn small_files_and_few_holes_are_left_alone() {
    let (mut world, observed) = with_files(101);
    world.settings.defragmentation = Some(Defragmentation { fragmented_percent: 50, minimum_size: 0 });
    assert_eq!(decided(&world, &observed), MemberStep::Quiet);
    let (_, observed) = with_files(1);
    world.settings.defragmentation = Some(Defragmentation { fragmented_percent: 50, minimum_size: 200 * MIB + 1 });
    assert_eq!(decided(&world, &observed), MemberStep::Quiet);
}

#[test]
fn nobody_is_defragmented_while_another_is_away_or_joins() {
    let (mut world, mut observed) = with_files(1);
    world.settings.defragmentation = Some(Defragmentation { fragmented_percent: 50, minimum_size: 0 });
    observed.answers.get_mut(&1).unwrap().linearizable = false;
    assert!(matches!(decided(&world, &observed), MemberStep::Wait { .. }));
    let (_, observed) = with_files(1);
    world.target.size = 4;
    assert!(matches!(call(decided(&world, &observed)), Call::AddLearner { ordinal: 3, .. }));
}

/// Expects a call, after which the status stores something.
fn called(world: &mut World, observed: &ObservedEtcd) -> Call {
    match decided(world, observed) {
        MemberStep::ActThen { action: EtcdAction::Call { call, .. }, latch } => {
            world.latch = latch;
            call
        }
        other => panic!("nothing is called and remembered: {other:?}"),
    }
}

/// Three members, one of which has reached its quota; nothing shows that there are holes.
fn without_space() -> (World, ObservedEtcd, Alarm) {
    let (world, mut observed) = with_files(200);
    let alarm = with_alarm(&world, &mut observed, 1, AlarmKind::NoSpace);
    (world, observed, alarm)
}

/// Deletes the history; after the rewrite each file has this many MiB.
fn reclaim(world: &mut World, observed: &mut ObservedEtcd, size: u64) {
    assert_eq!(called(world, observed), Call::Compact { revision: world.revision });
    assert!(matches!(decided(world, observed), MemberStep::Wait { .. }), "each compacts in its own time");
    world.now += 3;
    for expected in [2, 1, 0] {
        let Call::Defragment { ordinal, .. } = called(world, observed) else { panic!("nothing is defragmented") };
        assert_eq!(ordinal, expected);
        let answer = observed.answers.get_mut(&ordinal).unwrap();
        (answer.size, answer.used) = (size * MIB, size * MIB);
    }
}

#[test]
fn without_space_the_history_goes_then_the_holes_and_then_the_alarm() {
    let (mut world, mut observed, alarm) = without_space();
    reclaim(&mut world, &mut observed, 100);
    let other = with_alarm(&world, &mut observed, 2, AlarmKind::NoSpace);
    for alarm in [alarm, other] {
        assert_eq!(called(&mut world, &observed), Call::Disarm(alarm));
        observed.answers.values_mut().for_each(|answer| answer.alarms.retain(|left| *left != alarm));
    }
    assert!(world.latch.own.reclaimed.as_ref().unwrap().over);
    assert_eq!(decided(&world, &observed), MemberStep::Quiet);
}

#[test]
fn a_defragmentation_that_is_not_remembered_is_done_again() {
    let (mut world, observed, _) = without_space();
    called(&mut world, &observed);
    world.now += 3;
    let before = world.latch.clone();
    let first = called(&mut world, &observed);
    world.latch = before;
    assert_eq!(called(&mut world, &observed), first);
    assert_ne!(called(&mut world, &observed), first);
}

#[test]
fn a_file_that_was_still_compacted_while_it_was_rewritten_is_rewritten_once_more() {
    let (mut world, mut observed, alarm) = without_space();
    reclaim(&mut world, &mut observed, 100);
    observed.answers.get_mut(&1).unwrap().size = 190 * MIB;
    assert!(matches!(decided(&world, &observed), MemberStep::Wait { .. }));
    world.now += 27;
    assert!(matches!(called(&mut world, &observed), Call::Defragment { ordinal: 1, .. }));
    assert_eq!(stopped(&decided(&world, &observed)), "NoSpace");
    observed.answers.get_mut(&1).unwrap().size = 100 * MIB;
    assert_eq!(called(&mut world, &observed), Call::Disarm(alarm));
}

#[test]
fn an_alarm_that_would_come_back_at_once_is_reported_and_nothing_is_done_again() {
    let (mut world, mut observed, alarm) = without_space();
    reclaim(&mut world, &mut observed, 180);
    world.now += 100_000;
    (0..3).for_each(|_| drop(called(&mut world, &observed)));
    let step = decided(&world, &observed);
    assert_eq!(stopped(&step), "NoSpace");
    let text = "e-0 has 188743680 of 209715200 bytes without its history and without holes";
    assert!(matches!(step, MemberStep::Stop { why, .. } if why.contains(text) && why.contains("raise the quota")));
    // Somebody raises the quota. For versions that do not report it, the document's quota counts.
    observed.answers.values_mut().for_each(|answer| answer.quota = None);
    world.settings.quota = Some(201 * MIB);
    assert_eq!(called(&mut world.clone(), &observed), Call::Disarm(alarm));
    // Or somebody deletes keys: then there is history again to compact.
    world.settings.quota = Some(200 * MIB);
    observed.answers.values_mut().for_each(|answer| answer.revision += 1);
    assert_eq!(called(&mut world, &observed), Call::Compact { revision: world.revision + 1 });
}

#[test]
fn space_is_not_reclaimed_again_within_ten_minutes() {
    let (mut world, observed, _) = without_space();
    let reclaimed = Reclaimed { since: world.now, before: 1, over: true, ..Reclaimed::default() };
    world.latch.own.reclaimed = Some(reclaimed);
    world.now += 599;
    let step = decided(&world, &observed);
    assert!(matches!(step, MemberStep::Stop { reason: "NoSpace", why } if why.contains("less than 10 minutes ago")));
    world.now += 1;
    assert_eq!(called(&mut world, &observed), Call::Compact { revision: world.revision });
    assert_eq!(world.latch.own.reclaimed.unwrap().since, world.now);
}

#[test]
fn an_alarm_that_somebody_else_disarmed_ends_what_was_begun() {
    let (mut world, mut observed, _) = without_space();
    called(&mut world, &observed);
    observed.answers.values_mut().for_each(|answer| answer.alarms.clear());
    let MemberStep::Latch(latch) = decided(&world, &observed) else { panic!("it is not remembered") };
    assert!(latch.own.reclaimed.as_ref().unwrap().over);
    world.latch = latch;
    assert_eq!(decided(&world, &observed), MemberStep::Quiet);
}

#[test]
fn no_space_is_only_reported_while_somebody_is_away_or_if_the_chart_asks_for_that() {
    let (mut world, mut observed, _) = without_space();
    world.settings.no_space = NoSpace::Report;
    let step = decided(&world, &observed);
    assert!(matches!(&step, MemberStep::Stop { reason: "NoSpace", why } if why.contains("e-1")), "{step:?}");
    world.settings.no_space = NoSpace::Reclaim;
    observed.answers.remove(&2);
    let step = decided(&world, &observed);
    assert!(matches!(&step, MemberStep::Stop { reason: "NoSpace", why } if why.contains("when all")), "{step:?}");
}

#[test]
fn a_corrupt_member_is_replaced_before_its_alarm_is_disarmed() {
    let (mut world, mut observed) = with_files(100);
    let alarm = with_alarm(&world, &mut observed, 1, AlarmKind::Corrupt);
    let MemberStep::Latch(latch) = decided(&world, &observed) else { panic!("it is not waited for") };
    world.latch = latch;
    assert_eq!(stopped(&decided(&world, &observed)), "Corrupt");
    world.now += 601;
    assert!(removes(decided(&world, &observed), 1));
    // The member has left.
    observed.members.as_mut().unwrap().retain(|member| member.id != alarm.member);
    observed.answers.remove(&1);
    let MemberStep::Latch(latch) = decided(&world, &observed) else { panic!("its claim is not remembered") };
    world.latch = latch;
    // Its claim and its pod are deleted before another member joins, and the alarm is disarmed last.
    assert!(matches!(decided(&world, &observed), MemberStep::DeleteClaim { .. }));
    world.latch.stale.insert(1, Vec::new());
    assert_eq!(call(decided(&world, &observed)), Call::Disarm(alarm));
}

#[test]
fn corruption_of_an_unknown_member_is_reported_and_not_disarmed() {
    let (world, mut observed) = with_files(100);
    let alarm = Alarm { member: 0, kind: AlarmKind::Corrupt };
    observed.answers.values_mut().for_each(|answer| answer.alarms.push(alarm));
    let step = decided(&world, &observed);
    assert!(matches!(&step, MemberStep::Stop { reason: "Corrupt", why } if why.contains("a member")), "{step:?}");
}

#[test]
fn alarms_are_read_as_members_print_them() {
    let alarm = |member, kind| Some(Alarm { member, kind });
    assert_eq!(Alarm::parse("memberID:1050 alarm:NOSPACE "), alarm(1050, AlarmKind::NoSpace));
    assert_eq!(Alarm::parse("memberID:7 alarm:CORRUPT"), alarm(7, AlarmKind::Corrupt));
    assert_eq!(Alarm::parse("alarm:CORRUPT "), alarm(0, AlarmKind::Corrupt), "protobuf prints no zero");
    assert_eq!(Alarm::parse("etcdserver: no leader"), None);
}

#[test]
fn a_volume_holds_the_file_and_the_log() {
    let (world, observed) = with_files(100);
    let mut workload = world.workload();
    for claims in workload.claims.values_mut().flatten() {
        claims.size.capacity = 1024 * MIB;
    }
    workload.claims.remove(&2);
    let space = VolumeSpace { capacity: 1024 * MIB, used: 584 * MIB };
    assert_eq!(volumes(&workload, &observed), [(0, space), (1, space)].into());
}

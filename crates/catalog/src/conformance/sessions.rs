//! Promises of leases.

use super::*;
use crate::{ContainerState, Error};

promises!(
    session_numbers_are_never_reused,
    a_lease_that_ran_out_cannot_commit_or_open_containers,
    a_lease_that_ran_out_is_renewed_until_a_collection_ends_it,
    what_is_left_of_a_lease_is_known_while_it_runs,
    an_ended_session_cannot_be_renewed,
    ending_twice_is_no_error,
    ending_makes_open_containers_live,
    refreshing_takes_todays_epoch,
    a_session_belongs_to_the_client_it_was_begun_for,
);

fn session_numbers_are_never_reused(stand: &Stand) {
    let first = stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    stand.catalog.end(first).unwrap();
    let second = stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    assert!(second > first && first > stand.writer);
}

fn a_lease_that_ran_out_cannot_commit_or_open_containers(stand: &Stand) {
    let session = stand.catalog.begin(Purpose::Write, 10).unwrap().id;
    stand.pass_ms(9);
    stand.commit_with(session, vec![], vec![written("a", 1)]).unwrap();
    stand.pass_ms(1);
    assert_refused!(stand.commit_with(session, vec![], vec![written("b", 1)]), Error::LeaseLost { .. });
    assert_refused!(stand.catalog.open_container(session), Error::LeaseLost { .. });
    assert_eq!(stand.names(), ["a"]);
}

fn a_lease_that_ran_out_is_renewed_until_a_collection_ends_it(stand: &Stand) {
    let session = stand.catalog.begin(Purpose::Write, 10).unwrap();
    stand.pass_ms(11);
    assert_eq!(stand.catalog.renew(session.id, 10, false).unwrap(), session);
    stand.commit_with(session.id, vec![], vec![written("a", 1)]).unwrap();
    stand.pass_ms(11);
    stand.catalog.snapshot().unwrap();
    assert_refused!(stand.catalog.renew(session.id, 10, false), Error::LeaseLost { session: lost } if lost == session.id);
}

fn what_is_left_of_a_lease_is_known_while_it_runs(stand: &Stand) {
    let session = stand.catalog.begin(Purpose::Read, 10).unwrap().id;
    stand.pass_ms(4);
    assert_eq!(stand.catalog.lease_left_ms(session).unwrap(), Some(6));
    stand.pass_ms(6);
    assert_eq!(stand.catalog.lease_left_ms(session).unwrap(), None);
    assert_eq!(stand.catalog.lease_left_ms(SessionId(99)).unwrap(), None);
}

fn an_ended_session_cannot_be_renewed(stand: &Stand) {
    let session = stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    stand.catalog.end(session).unwrap();
    assert_refused!(stand.catalog.renew(session, LEASE_MS, true), Error::LeaseLost { .. });
}

fn ending_twice_is_no_error(stand: &Stand) {
    stand.catalog.end(stand.writer).unwrap();
    stand.catalog.end(stand.writer).unwrap();
    stand.catalog.end(SessionId(99)).unwrap();
}

fn ending_makes_open_containers_live(stand: &Stand) {
    let container = stand.catalog.open_container(stand.writer).unwrap();
    let other = stand.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    let kept = stand.catalog.open_container(other).unwrap();
    stand.catalog.end(stand.writer).unwrap();
    let state = |container| stand.catalog.container(container).unwrap().unwrap().state;
    assert_eq!((state(container), state(kept)), (ContainerState::Live, ContainerState::Open));
}

fn refreshing_takes_todays_epoch(stand: &Stand) {
    let session = stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap();
    let container = stand.sealed_container();
    let snapshot = stand.catalog.snapshot().unwrap();
    stand.catalog.condemn(snapshot, &[container]).unwrap();
    assert_eq!(stand.catalog.renew(session.id, LEASE_MS, false).unwrap().epoch, session.epoch);
    let refreshed = stand.catalog.renew(session.id, LEASE_MS, true).unwrap();
    assert!(refreshed.epoch > session.epoch);
    assert_eq!(refreshed.epoch, stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap().epoch);
}

fn a_session_belongs_to_the_client_it_was_begun_for(stand: &Stand) {
    let session = stand.catalog.begin_for(7 << 40, Purpose::Write, LEASE_MS).unwrap().id;
    let belongs = |session, client| stand.catalog.is_begun_for(session, client).unwrap();
    assert_eq!((belongs(session, 7 << 40), belongs(session, 8)), (Some(true), Some(false)));
    assert_eq!((belongs(stand.writer, 0), belongs(stand.writer, 1)), (Some(false), Some(false)));
    stand.commit_with(session, vec![], vec![written("a", 1)]).unwrap();
    stand.catalog.end(session).unwrap();
    assert_eq!(belongs(session, 7 << 40), None);
}

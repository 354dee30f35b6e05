//! Checks of leases.

use super::*;
use crate::{ContainerState, Error};

checks!(
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

fn session_numbers_are_never_reused(fixture: &Fixture) {
    let first = fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    fixture.catalog.end(first).unwrap();
    let second = fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    assert!(second > first && first > fixture.writer);
}

fn a_lease_that_ran_out_cannot_commit_or_open_containers(fixture: &Fixture) {
    let session = fixture.catalog.begin(Purpose::Write, 10).unwrap().id;
    fixture.pass_ms(9);
    fixture.commit_with(session, vec![], vec![written("a", 1)]).unwrap();
    fixture.pass_ms(1);
    assert_refused!(fixture.commit_with(session, vec![], vec![written("b", 1)]), Error::LeaseLost { .. });
    assert_refused!(fixture.catalog.open_container(session), Error::LeaseLost { .. });
    assert_eq!(fixture.names(), ["a"]);
}

fn a_lease_that_ran_out_is_renewed_until_a_collection_ends_it(fixture: &Fixture) {
    let session = fixture.catalog.begin(Purpose::Write, 10).unwrap();
    fixture.pass_ms(11);
    assert_eq!(fixture.catalog.renew(session.id, 10, false).unwrap(), session);
    fixture.commit_with(session.id, vec![], vec![written("a", 1)]).unwrap();
    fixture.pass_ms(11);
    fixture.catalog.snapshot().unwrap();
    assert_refused!(fixture.catalog.renew(session.id, 10, false), Error::LeaseLost { session: lost } if lost == session.id);
}

fn what_is_left_of_a_lease_is_known_while_it_runs(fixture: &Fixture) {
    let session = fixture.catalog.begin(Purpose::Read, 10).unwrap().id;
    fixture.pass_ms(4);
    assert_eq!(fixture.catalog.lease_left_ms(session).unwrap(), Some(6));
    fixture.pass_ms(6);
    assert_eq!(fixture.catalog.lease_left_ms(session).unwrap(), None);
    assert_eq!(fixture.catalog.lease_left_ms(SessionId(99)).unwrap(), None);
}

fn an_ended_session_cannot_be_renewed(fixture: &Fixture) {
    let session = fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    fixture.catalog.end(session).unwrap();
    assert_refused!(fixture.catalog.renew(session, LEASE_MS, true), Error::LeaseLost { .. });
}

fn ending_twice_is_no_error(fixture: &Fixture) {
    fixture.catalog.end(fixture.writer).unwrap();
    fixture.catalog.end(fixture.writer).unwrap();
    fixture.catalog.end(SessionId(99)).unwrap();
}

fn ending_makes_open_containers_live(fixture: &Fixture) {
    let container = fixture.catalog.open_container(fixture.writer).unwrap();
    let other = fixture.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    let kept = fixture.catalog.open_container(other).unwrap();
    fixture.catalog.end(fixture.writer).unwrap();
    let state = |container| fixture.catalog.container(container).unwrap().unwrap().state;
    assert_eq!((state(container), state(kept)), (ContainerState::Live, ContainerState::Open));
}

fn refreshing_takes_todays_epoch(fixture: &Fixture) {
    let session = fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap();
    let container = fixture.sealed_container();
    let snapshot = fixture.catalog.snapshot().unwrap();
    fixture.catalog.condemn(snapshot, &[container]).unwrap();
    assert_eq!(fixture.catalog.renew(session.id, LEASE_MS, false).unwrap().epoch, session.epoch);
    let refreshed = fixture.catalog.renew(session.id, LEASE_MS, true).unwrap();
    assert!(refreshed.epoch > session.epoch);
    assert_eq!(refreshed.epoch, fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap().epoch);
}

fn a_session_belongs_to_the_client_it_was_begun_for(fixture: &Fixture) {
    let session = fixture.catalog.begin_for(7 << 40, Purpose::Write, LEASE_MS).unwrap().id;
    let belongs = |session, client| fixture.catalog.is_begun_for(session, client).unwrap();
    assert_eq!((belongs(session, 7 << 40), belongs(session, 8)), (Some(true), Some(false)));
    assert_eq!((belongs(fixture.writer, 0), belongs(fixture.writer, 1)), (Some(false), Some(false)));
    fixture.commit_with(session, vec![], vec![written("a", 1)]).unwrap();
    fixture.catalog.end(session).unwrap();
    assert_eq!(belongs(session, 7 << 40), None);
}

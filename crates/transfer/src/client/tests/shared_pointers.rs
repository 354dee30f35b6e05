//! The shared file pointer over connections that break, and node processes that are replaced.

use super::*;

const START: PointerStart = PointerStart { generation: 0, position: 10 };

#[test]
fn processes_that_attached_with_one_ticket_move_one_pointer() {
    let (_world, nodes) = nodes(2);
    let clients = [Client::new(settings(&nodes), None), Client::new(settings(&nodes), None)];
    let ticket = clients[0].open(b"/run/out.dat", READ | CREATE).unwrap();
    let files = clients.each_ref().map(|client| client.attach(&ticket, READ).unwrap());
    let befores = [0, 1, 0, 1].map(|file: usize| files[file].move_pointer(&START, 3).unwrap());
    assert_eq!(befores, [10, 13, 16, 19]);
    let too_far = files[0].move_pointer(&START, u64::MAX).unwrap_err();
    assert!(too_far.to_string().contains("above the limit"), "{too_far}");
}

#[test]
fn a_move_whose_connection_broke_is_sent_again_with_its_number() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, READ);
    assert_eq!(file.move_pointer(&START, 3).unwrap(), 10);
    nodes[0].does.close_at.store(60, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| file.move_pointer(&START, 4).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        nodes[0].does.close_at.store(0, Ordering::SeqCst);
        assert_eq!(moving.join().unwrap(), 13);
    });
    assert_eq!(file.move_pointer(&START, 0).unwrap(), 17);
    assert_eq!(*nodes[0].does.pointer_moves.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn a_position_that_a_node_lost_is_an_error_and_not_the_begin() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, READ);
    assert_eq!(file.move_pointer(&START, 3).unwrap(), 10);
    nodes[0].crash();
    nodes[0].revive();
    for _ in 0..2 {
        let lost = file.move_pointer(&START, 3).unwrap_err();
        assert!(lost.to_string().contains("close the file and open it again"), "{lost}");
    }
    file.detach(1).unwrap();
    assert_eq!(open(&client, READ).move_pointer(&START, 3).unwrap(), 10);
}

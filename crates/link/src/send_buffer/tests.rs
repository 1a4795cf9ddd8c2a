//! The send buffer without a connection.

use super::*;

fn limits() -> LinkLimits {
    LinkLimits {
        frame_bytes_max: 64,
        backlog_bytes_max: 1_000,
        backlog_messages_max: 100,
        chunk_bytes: 128,
        spare_bytes_max: 10_000,
        ..LinkLimits::default()
    }
}

fn offer(buffer: &mut SendBuffer, length: usize) -> Result<u64, OfferError> {
    let byte = buffer.last as u8 + 1;
    buffer.offer(0, |bytes| bytes.resize(bytes.len() + length, byte))
}

fn offer_many(buffer: &mut SendBuffer, count: usize, length: usize) {
    (0..count).for_each(|_| assert!(offer(buffer, length).is_ok()));
}

/// Writes all batches; gives the numbers of their first and last messages and their lengths.
fn write_all(buffer: &mut SendBuffer) -> Vec<(u64, u64, usize)> {
    let mut written = Vec::new();
    while let Some(batch) = buffer.close(buffer.next_unwritten()) {
        assert_eq!(batch.checksum, Some(checksum(buffer.payload(&batch))));
        let messages = messages(buffer.payload(&batch));
        assert_eq!(messages, (batch.first..=batch.last).map(|n| n as u8).collect::<Vec<_>>());
        written.push((batch.first, batch.last, batch.length()));
        buffer.wrote_batch();
    }
    written
}

/// The first byte of each message.
fn messages(mut payload: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some((length, rest)) = payload.split_first_chunk() {
        let (message, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        found.push(message[0]);
        payload = rest;
    }
    found
}

#[test]
fn messages_between_two_writes_share_frames_up_to_the_longest() {
    let mut buffer = SendBuffer::new(limits());
    offer_many(&mut buffer, 5, 20);
    // 24 bytes each: two fit into 64.
    assert_eq!(write_all(&mut buffer), [(1, 2, 48), (3, 4, 48), (5, 5, 24)]);
    offer(&mut buffer, 20).unwrap();
    assert_eq!(write_all(&mut buffer), [(6, 6, 24)], "a written frame does not grow");
    assert_eq!((buffer.messages(), buffer.bytes()), (6, 144));
}

#[test]
fn what_is_acknowledged_is_released_and_its_memory_used_again() {
    let mut buffer = SendBuffer::new(limits());
    for round in 0..20 {
        offer_many(&mut buffer, 10, 20);
        assert_eq!(buffer.messages(), 10);
        write_all(&mut buffer);
        let last = (round + 1) * 10;
        buffer.acknowledge(last - 5);
        assert_eq!(buffer.messages(), 5);
        buffer.acknowledge(last);
        assert_eq!((buffer.bytes(), buffer.chunks.len(), buffer.open.len()), (0, 0, 0));
        assert!(buffer.spare.len() <= 3, "{}", buffer.spare.len());
    }
}

#[test]
fn over_a_limit_nothing_is_taken() {
    let mut buffer = SendBuffer::new(limits());
    offer_many(&mut buffer, 41, 20);
    assert_eq!(buffer.bytes(), 984);
    let error = offer(&mut buffer, 20).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the backlog of the link is full: 984 bytes (limit 1000, backlog_bytes_max) in 41 messages \
         (limit 100, backlog_messages_max): retry later"
    );
    assert_eq!((buffer.bytes(), buffer.messages()), (984, 41));
    assert_eq!(offer(&mut buffer, 12), Ok(42), "what fits is taken");
    assert_eq!(
        offer(&mut buffer, 61).unwrap_err(),
        buffer.full(),
        "at the limit the length is not looked at"
    );
    write_all(&mut buffer);
    buffer.acknowledge(42);
    let error = offer(&mut buffer, 61).unwrap_err();
    assert_eq!(error, OfferError::TooLong { bytes: 61, bytes_max: 60 });
    assert_eq!(offer(&mut buffer, 60), Ok(43));
    let mut many = SendBuffer::new(LinkLimits { backlog_messages_max: 2, ..limits() });
    offer_many(&mut many, 2, 1);
    assert!(matches!(offer(&mut many, 1), Err(OfferError::Full { messages: 2, .. })));
}

#[test]
fn after_a_reconnect_exactly_the_rest_is_written() {
    for received in 0..=9 {
        let mut buffer = SendBuffer::new(limits());
        offer_many(&mut buffer, 9, 10);
        write_all(&mut buffer);
        offer(&mut buffer, 10).unwrap();
        assert!(buffer.can_resume_after(received) && !buffer.can_resume_after(10));
        buffer.resume_after(received, LinkFaults::default());
        assert_eq!(buffer.resent(), 9 - received);
        let written = write_all(&mut buffer);
        assert_eq!((written[0].0, written.last().unwrap().1), (received + 1, 10));
        assert_eq!(buffer.bytes(), (10 - received) * 14);
        buffer.acknowledge(10);
        assert_eq!(buffer.bytes(), 0);
        assert!(!buffer.can_resume_after(9), "that is released");
    }
}

#[test]
fn a_session_begins_without_what_the_last_one_left() {
    let mut buffer = SendBuffer::new(limits());
    offer_many(&mut buffer, 9, 10);
    write_all(&mut buffer);
    buffer.begin_session(100);
    assert_eq!((buffer.messages(), buffer.bytes(), buffer.has_unwritten()), (0, 0, false));
    assert_eq!(offer(&mut buffer, 10), Ok(1));
    assert_eq!(write_all(&mut buffer), [(1, 1, 14)]);
    buffer.begin_session(40);
    assert!(matches!(offer(&mut buffer, 37), Err(OfferError::TooLong { bytes_max: 36, .. })));
}

#[test]
fn the_age_is_that_of_the_oldest_message_that_is_not_acknowledged() {
    let mut buffer = SendBuffer::new(limits());
    assert_eq!(buffer.age(100), None);
    for now_us in [100, 200, 300] {
        buffer.offer(now_us, |bytes| bytes.push(1)).unwrap();
        assert_eq!(buffer.age(now_us).map(Elapsed::us), Some(now_us.unsigned_abs() - 100));
        buffer.close(buffer.next_unwritten() + now_us.unsigned_abs() / 100 - 1);
    }
    (0..3).for_each(|_| buffer.wrote_batch());
    buffer.acknowledge(1);
    assert_eq!(buffer.age(300).map(Elapsed::us), Some(100));
    buffer.acknowledge(3);
    assert_eq!(buffer.age(300), None);
}

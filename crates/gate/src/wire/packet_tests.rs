use super::*;

fn key(from: &str, to: &str) -> Key {
    Key { from: from.parse().unwrap(), to: to.parse().unwrap() }
}

#[test]
fn a_datagram_goes_back_to_whoever_sent_it() {
    for key in [key("10.0.2.15:4000", "10.0.2.2:53"), key("[fd50::f]:4000", "[fd50::2]:53")] {
        let packet = datagram(&key, b"answer").unwrap();
        let back = Key { from: key.to, to: key.from };
        assert_eq!(parse(&packet), Some(Packet::Udp { key: back, payload: b"answer" }));
        // Its checksums are right: the kernel inside looks at them.
        let (_, _, _, payload) = network(&packet).unwrap();
        let (from, to) = (IpAddress::from(key.to.ip()), IpAddress::from(key.from.ip()));
        assert!(UdpPacket::new_checked(payload).unwrap().verify_checksum(&from, &to));
    }
    assert_eq!(datagram(&key("10.0.2.15:1", "[::1]:1"), b""), None);
    assert_eq!(datagram(&key("10.0.2.15:1", "10.0.2.2:1"), &[0; 65_001]), None);
}

#[test]
fn a_first_segment_is_reset() {
    let key = key("10.0.2.15:4000", "1.2.3.4:80");
    let syn = first_segment(&key);
    assert_eq!(parse(&syn), Some(Packet::Tcp { key, opens: true }));
    let answer = reset(&syn).unwrap();
    let back = Key { from: key.to, to: key.from };
    assert_eq!(parse(&answer), Some(Packet::Tcp { key: back, opens: false }));
    let (_, _, _, payload) = network(&answer).unwrap();
    let segment = TcpPacket::new_checked(payload).unwrap();
    assert!(segment.rst() && segment.ack());
    assert_eq!(segment.ack_number(), TcpSeqNumber(1001));
}

#[test]
fn what_is_not_tcp_is_forbidden_at_once() {
    let four = datagram(&key("1.2.3.4:123", "10.0.2.15:4000"), b"time").unwrap();
    let answer = forbidden(&four, "10.0.2.2".parse().unwrap()).unwrap();
    let to = "10.0.2.15".parse::<IpAddr>().unwrap();
    assert_eq!(parse(&answer), Some(Packet::Other { to, protocol: 1 }));
    assert_eq!(answer[20..22], [3, 13]);
    // An error is never answered with an error.
    assert_eq!(forbidden(&answer, "10.0.2.2".parse().unwrap()), None);
    let six = datagram(&key("[2a00::1]:123", "[fd50::f]:4000"), b"time").unwrap();
    let answer = forbidden(&six, "fd50::2".parse().unwrap()).unwrap();
    assert_eq!(answer[40..42], [1, 1]);
    let group = datagram(&key("224.0.0.251:5353", "10.0.2.15:5353"), b"x").unwrap();
    assert_eq!(forbidden(&group, "10.0.2.2".parse().unwrap()), None);
}

#[test]
fn what_is_no_whole_packet_is_nothing() {
    let whole = first_segment(&key("10.0.2.15:4000", "1.2.3.4:80"));
    for end in 0..whole.len() {
        assert_eq!(parse(&whole[..end]), None, "{end}");
    }
    let mut piece = whole.clone();
    piece[6] = 0x20;
    assert_eq!(parse(&piece), None);
    let mut longer = whole;
    longer[3] += 1;
    assert_eq!(parse(&longer), None);
}

fn first_segment(key: &Key) -> Vec<u8> {
    let tcp = TcpRepr {
        src_port: key.from.port(),
        dst_port: key.to.port(),
        control: TcpControl::Syn,
        seq_number: TcpSeqNumber(1000),
        ack_number: None,
        window_len: 1000,
        window_scale: None,
        max_seg_size: Some(1000),
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let ip = header(key.from.ip(), key.to.ip(), IpProtocol::Tcp, tcp.buffer_len()).unwrap();
    whole(&ip, tcp.buffer_len(), |out| {
        let mut packet = TcpPacket::new_unchecked(out);
        tcp.emit(&mut packet, &ip.src_addr(), &ip.dst_addr(), &ChecksumCapabilities::default());
    })
}

//! Verdicts to BPF, as a balanced tree over the call's number.
//!
//! By hand, because the kernel tries every call of two architectures against a filter when it is loaded:
//! seccompiler's chain of comparisons (1,800 instructions for these lists) costs 1.7 ms there, on every
//! command; the tree costs 0.1 ms (docs/decisions/0005-seccomp-tree.md).

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Errno(i32),
    /// Allowed when the check holds, else EPERM.
    When(Check),
    /// UNIX; TCP and UDP of INET and INET6; the routing part of NETLINK. Else EAFNOSUPPORT, ESOCKTNOSUPPORT or
    /// EPROTONOSUPPORT: programs that try a rarer one first then go on with the usual one.
    Sockets,
}

/// A check on the low half of an argument: the kernel's own parameters here are all 32 bits wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    AnyOf {
        argument: u32,
        values: Vec<u32>,
    },
    NoneOf {
        argument: u32,
        values: Vec<u32>,
    },
    NoBits {
        argument: u32,
        bits: u32,
    },
    /// Refused where both arguments have one of their bits.
    NotBoth {
        arguments: [u32; 2],
        bits: [u32; 2],
    },
}

const LOAD: u16 = 0x20;
const RETURN: u16 = 0x06;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const AND: u16 = 0x54;

const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;

/// The bits of socket(2)'s second argument that say which kind; the others are flags.
const SOCKET_KIND: u32 = 0xf;

#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

pub fn compile(verdicts: &BTreeMap<u32, Verdict>, architecture: u32) -> Vec<u8> {
    let mut program = vec![
        plain(LOAD, ARCHITECTURE),
        Instruction { code: JUMP_IF_EQUAL, if_true: 1, if_false: 0, value: architecture },
        plain(RETURN, KILL_PROCESS),
        plain(LOAD, NUMBER),
    ];
    tree(&ranges(verdicts), &mut program);
    program.iter().flat_map(|i| i.bytes()).collect()
}

/// Everything is allowed but `calls`, which get EPERM.
/// Precondition: fewer than 250 calls, which is as far as a conditional jump reaches.
pub fn refuse(calls: &[i64], architecture: u32) -> Vec<u8> {
    /// The numbers of x32, a second door to the same calls; no other processor has any so high.
    const SECOND_DOOR: u32 = 0x4000_0000;
    let to_refuse = |index: usize| (calls.len() - index) as u8 + 1;
    let mut program = vec![
        plain(LOAD, ARCHITECTURE),
        Instruction { code: JUMP_IF_EQUAL, if_true: 1, if_false: 0, value: architecture },
        plain(RETURN, KILL_PROCESS),
        plain(LOAD, NUMBER),
        Instruction { code: JUMP_IF_AT_LEAST, if_true: to_refuse(0), if_false: 0, value: SECOND_DOOR },
    ];
    program.extend(calls.iter().enumerate().map(|(index, call)| Instruction {
        code: JUMP_IF_EQUAL,
        if_true: to_refuse(index + 1),
        if_false: 0,
        value: *call as u32,
    }));
    program.extend([plain(RETURN, ALLOW), plain(RETURN, ERRNO | libc::EPERM as u32)]);
    program.iter().flat_map(|i| i.bytes()).collect()
}

/// Neighbours with the same verdict are one; gaps, and all that comes after the last, do not exist.
fn ranges(verdicts: &BTreeMap<u32, Verdict>) -> Vec<(u32, Verdict)> {
    let unknown = Verdict::Errno(libc::ENOSYS);
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    let mut next = 0;
    let mut add = |start: u32, verdict: &Verdict| {
        if ranges.last().is_none_or(|(_, last)| last != verdict) {
            ranges.push((start, verdict.clone()));
        }
    };
    for (call, verdict) in verdicts {
        if *call > next {
            add(next, &unknown);
        }
        add(*call, verdict);
        next = call + 1;
    }
    add(next, &unknown);
    ranges
}

/// Precondition: `ranges` is not empty and sorted by start.
fn tree(ranges: &[(u32, Verdict)], program: &mut Vec<Instruction>) {
    if let [(_, verdict)] = ranges {
        return program.extend(leaf(verdict));
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let at = program.len();
    program.push(Instruction { code: JUMP_IF_AT_LEAST, if_true: 0, if_false: 0, value: high[0].0 });
    tree(low, program);
    // A conditional jump reaches 255 instructions; an unconditional one beside it reaches any.
    let below = program.len() - at - 1;
    match u8::try_from(below) {
        Ok(near) => program[at].if_true = near,
        Err(_) => {
            program[at].if_false = 1;
            program.insert(at + 1, plain(JUMP, below as u32));
        }
    }
    tree(high, program);
}

fn leaf(verdict: &Verdict) -> Vec<Instruction> {
    let refuse = plain(RETURN, ERRNO | libc::EPERM as u32);
    let allow = plain(RETURN, ALLOW);
    match verdict {
        Verdict::Allow => vec![allow],
        Verdict::Errno(number) => vec![plain(RETURN, ERRNO | *number as u32)],
        Verdict::When(Check::AnyOf { argument, values }) => choose(*argument, values, allow, refuse),
        Verdict::When(Check::NoneOf { argument, values }) => choose(*argument, values, refuse, allow),
        Verdict::When(Check::NoBits { argument, bits }) => vec![
            plain(LOAD, argument_at(*argument)),
            Instruction { code: JUMP_IF_ANY_BIT, if_true: 1, if_false: 0, value: *bits },
            allow,
            refuse,
        ],
        Verdict::When(Check::NotBoth { arguments, bits }) => vec![
            plain(LOAD, argument_at(arguments[0])),
            Instruction { code: JUMP_IF_ANY_BIT, if_true: 0, if_false: 2, value: bits[0] },
            plain(LOAD, argument_at(arguments[1])),
            Instruction { code: JUMP_IF_ANY_BIT, if_true: 1, if_false: 0, value: bits[1] },
            allow,
            refuse,
        ],
        Verdict::Sockets => sockets(),
    }
}

/// `found` when the argument is one of the values, else `otherwise`.
fn choose(argument: u32, values: &[u32], found: Instruction, otherwise: Instruction) -> Vec<Instruction> {
    let mut code = vec![plain(LOAD, argument_at(argument))];
    for (index, value) in values.iter().enumerate() {
        let to_found = (values.len() - index) as u8;
        code.push(Instruction { code: JUMP_IF_EQUAL, if_true: to_found, if_false: 0, value: *value });
    }
    code.extend([otherwise, found]);
    code
}

fn sockets() -> Vec<Instruction> {
    let error = |number: i32| vec![plain(RETURN, ERRNO | number as u32)];
    let allow = || vec![plain(RETURN, ALLOW)];
    let load = |argument| vec![plain(LOAD, argument_at(argument))];
    // 0 is the usual protocol of its kind.
    let only = |protocol| {
        let usual = branch(0, allow(), branch(protocol, allow(), error(libc::EPROTONOSUPPORT)));
        [load(2), usual].concat()
    };
    let internet = || {
        let other = branch(libc::SOCK_RAW, error(libc::EPERM), error(libc::ESOCKTNOSUPPORT));
        let datagrams = branch(libc::SOCK_DGRAM, only(libc::IPPROTO_UDP), other);
        let kinds = branch(libc::SOCK_STREAM, only(libc::IPPROTO_TCP), datagrams);
        [load(1), vec![plain(AND, SOCKET_KIND)], kinds].concat()
    };
    let routes = [load(2), branch(libc::NETLINK_ROUTE, allow(), error(libc::EAFNOSUPPORT))].concat();
    let netlink = branch(libc::AF_NETLINK, routes, error(libc::EAFNOSUPPORT));
    let families = branch(libc::AF_INET, internet(), branch(libc::AF_INET6, internet(), netlink));
    [load(0), branch(libc::AF_UNIX, allow(), families)].concat()
}

/// `then` if the loaded word is `value`. Precondition: `then` returns, and has at most 255 instructions.
fn branch(value: i32, then: Vec<Instruction>, otherwise: Vec<Instruction>) -> Vec<Instruction> {
    let if_false = then.len() as u8;
    let compare = Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false, value: value as u32 };
    [vec![compare], then, otherwise].concat()
}

/// The low half, on little-endian processors.
fn argument_at(index: u32) -> u32 {
    ARGUMENTS + 8 * index
}

fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, value }
}

impl Instruction {
    fn bytes(self) -> [u8; 8] {
        let code = self.code.to_ne_bytes();
        let value = self.value.to_ne_bytes();
        [code[0], code[1], self.if_true, self.if_false, value[0], value[1], value[2], value[3]]
    }
}

/// An interpreter of the kernel's filter programs, for the few instructions in use.
#[cfg(test)]
pub fn run(filter: &[u8], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let program: Vec<Instruction> = filter
        .chunks_exact(8)
        .map(|b| Instruction {
            code: u16::from_ne_bytes([b[0], b[1]]),
            if_true: b[2],
            if_false: b[3],
            value: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
        })
        .collect();
    let (mut at, mut accumulator) = (0, 0u32);
    loop {
        let i = program[at];
        at += 1;
        let branch = |taken: bool| usize::from(if taken { i.if_true } else { i.if_false });
        match i.code {
            LOAD => {
                accumulator = match i.value {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    offset => arguments[((offset - ARGUMENTS) / 8) as usize] as u32,
                }
            }
            AND => accumulator &= i.value,
            RETURN => return i.value,
            JUMP => at += i.value as usize,
            JUMP_IF_EQUAL => at += branch(accumulator == i.value),
            JUMP_IF_AT_LEAST => at += branch(accumulator >= i.value),
            JUMP_IF_ANY_BIT => at += branch(accumulator & i.value != 0),
            code => panic!("instruction {code:#x}"),
        }
    }
}

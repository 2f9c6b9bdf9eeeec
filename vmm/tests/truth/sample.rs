//! A truth that was made by hand, and what it says.
//!
//! `cat` calls a function that calls itself, asks its kernel for something five times and is interrupted
//! three times. `sort` has no symbols and takes a page fault, whose handler, without a symbol as well,
//! jumps to a function of the kernel. An instruction of `cat` was modified.

use vpmu::truth::{Context, Entered, Event, Instruction, Module, Row, Space, Symbol, Truth};

/// The kernel's first address.
const KERNEL: u64 = 0xFFFF_FFFF_8100_0000;
/// The spaces.
const CAT: u32 = 0;
const SORT: u32 = 1;

/// An instruction and the processor, the CPL and the counts of its rows.
type Code = (u32, u64, &'static [u8], &'static [(u32, u8, [u64; 2])]);

const CODE: &[Code] = &[
    // main: CALL fact; SYSCALL; JMP main, which was modified to NOP and back.
    (CAT, 0x40_1000, &[0xE8, 0x3B, 0, 0, 0], &[(0, 3, [5, 0])]),
    (CAT, 0x40_1005, &[0x0F, 0x05], &[(0, 3, [5, 0])]),
    (CAT, 0x40_1007, &[0x90], &[(0, 3, [8, 0])]),
    (CAT, 0x40_1007, &[0xEB, 0xF7], &[(0, 3, [12, 10])]),
    // fact: DEC EDI; JE to RET; CALL fact; RET.
    (CAT, 0x40_1040, &[0xFF, 0xCF], &[(0, 3, [8, 2]), (1, 3, [3, 1])]),
    (CAT, 0x40_1042, &[0x74, 0x09], &[(0, 3, [11, 0])]),
    (CAT, 0x40_1048, &[0xE8, 0xF3, 0xFF, 0xFF, 0xFF], &[(0, 3, [6, 0])]),
    (CAT, 0x40_104D, &[0xC3], &[(0, 3, [2, 0])]),
    // entry_SYSCALL_64: SWAPGS. do_syscall: MOV EAX, [RDI]. irq_entry: IRETQ.
    (CAT, KERNEL, &[0x0F, 0x01, 0xF8], &[(0, 0, [15, 5])]),
    (CAT, KERNEL + 0x100, &[0x8B, 0x07], &[(0, 0, [50, 25])]),
    (CAT, KERNEL + 0x200, &[0x48, 0xCF], &[(0, 0, [12, 6])]),
    // NOP at a call target and far behind it.
    (SORT, 0x50_0000, &[0x90], &[(1, 3, [30, 4])]),
    (SORT, 0x70_0123, &[0x90], &[(1, 3, [10, 0])]),
    (SORT, KERNEL + 0x100, &[0x8B, 0x07], &[(1, 0, [3, 0])]),
    (SORT, KERNEL + 0x310, &[], &[(1, 0, [4, 3])]),
];

/// Parent, how it was entered, site, entry, space, CPL, times, counts.
type Call = (Option<u32>, Entered, u64, u64, u32, u8, u64, [u64; 2]);

const CALLS: &[Call] = &[
    (None, Entered::Bottom, 0x40_1000, 0x40_1000, CAT, 3, 1, [30, 10]),
    (Some(0), Entered::Call, 0x40_1000, 0x40_1040, CAT, 3, 5, [20, 2]),
    (Some(1), Entered::Call, 0x40_1048, 0x40_1040, CAT, 3, 4, [8, 1]),
    (Some(2), Entered::Call, 0x40_1048, 0x40_1040, CAT, 3, 2, [2, 0]),
    (Some(0), Entered::SystemCall, 0x40_1005, KERNEL, CAT, 0, 5, [15, 5]),
    (Some(4), Entered::Call, KERNEL + 8, KERNEL + 0x100, CAT, 0, 5, [50, 25]),
    (Some(1), Entered::Interrupt(0xEC), 0x40_1042, KERNEL + 0x200, CAT, 0, 3, [12, 6]),
    (None, Entered::Bottom, 0x50_0000, 0x50_0000, SORT, 3, 1, [40, 4]),
    (Some(7), Entered::Exception(14), 0x70_0123, KERNEL + 0x300, SORT, 0, 1, [7, 3]),
];

/// What there is in it of each event.
pub(crate) const TOTALS: [u64; 2] = [184, 56];

/// The truth.
pub(crate) fn truth() -> Truth {
    let event =
        |name: &str, signal: &str| Event { name: name.into(), signals: vec![signal.into()] };
    let space = |cr3, name: &str| Space { cr3: Some(cr3), name: Some(name.into()) };
    let module = |name: &str, space, symbols: &[(u64, u64, &str)]| Module {
        name: name.into(),
        build_id: None,
        space,
        code: Vec::new(),
        symbols: symbols
            .iter()
            .map(|&(address, size, name)| Symbol { address, size, name: name.into() })
            .collect(),
    };
    let rows = (0..).zip(CODE).flat_map(|(instruction, (.., rows))| {
        rows.iter().map(move |&(vcpu, cpl, counts)| Row {
            instruction,
            vcpu,
            cpl,
            counts: counts.into(),
        })
    });
    let kernel = [
        (KERNEL, 0x100, "entry_SYSCALL_64"),
        (KERNEL + 0x100, 0, "do_syscall"),
        (KERNEL + 0x200, 0x20, "irq_entry"),
    ];
    Truth {
        personality: "k8".into(),
        vcpus: 2,
        events: vec![event("instructions", "retired"), event("loads", "loads")],
        spaces: vec![space(0x2000, "cat"), space(0x3000, "sort")],
        instructions: CODE
            .iter()
            .map(|&(space, address, bytes, _)| Instruction {
                space,
                address,
                bits: 64,
                bytes: bytes.into(),
            })
            .collect(),
        rows: rows.collect(),
        contexts: CALLS
            .iter()
            .map(|&(parent, entered, site, entry, space, cpl, times, own)| Context {
                parent,
                entered,
                site,
                entry,
                space,
                cpl,
                times,
                own: own.into(),
            })
            .collect(),
        flattened: 0,
        modules: vec![
            module("kernel", None, &kernel),
            module("cat", Some(CAT), &[(0x40_1000, 0x40, "main"), (0x40_1040, 0x40, "fact")]),
        ],
    }
}

//! Far transfers that load EFLAGS in other ways.

use guest_tests::guest::{EFLAGS_IF, EOI};
use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{CodeLabel, byte_ptr, dword_ptr, ecx, edi, esp};
use vpmu::program::{KERNEL_CS, KERNEL_SS, LAPIC};

use super::*;

/// To where CPL 3 and virtual-8086 mode come back by INT n: PUSH, MOV.
fn keep_stack(g: &mut Guest, back: CodeLabel) -> Result {
    g.push_address(back)?;
    g.mov(dword_ptr(KEPT_ESP), esp)
}

/// SYSRET in legacy mode sets IF (APM volume 3, "SYSRET").
pub(super) const SYSRET: &[Row] = {
    const EFER: u32 = 0xC000_0080;
    const SCE: u64 = 1;
    const STAR: u32 = 0xC000_0081;
    const STAR_SEGMENTS: u64 = 0x3B << 48;
    &[Row {
            name: "SYSRET",
            prepare: |g| {
                g.write_msr(EFER, SCE)?;
                g.write_msr(STAR, STAR_SEGMENTS)
            },
            counted: |g| {
                let (mut target, mut back) = (g.create_label(), g.create_label());
                keep_stack(g, back)?; // 2
                vector(g)?; // 4
                g.address(ecx, target)?; // 5
                g.sysret()?; // 6
                g.place(&mut target)?;
                mark(g, "sysret")?;
                g.nop()?;
                g.int(i32::from(BACK))?;
                g.place(&mut back)
            },
            body: end,
            expected: |_| vec![("sysret", 6)],
        }]
};

/// IF is the task's at IOPL 3 (SDM Vol. 3B, "Class 1 -- Hardware Interrupt and Exception Handling in
/// Virtual-8086 Mode"). Addresses are offsets in its segment.
pub(super) const VIRTUAL_8086: &[Row] = {
    const CODE: u32 = 0x9000;
    const STACK: i32 = 0x9800;
    const VM: i32 = 1 << 17;
    const IOPL_3: i32 = 3 << 12;
    /// PUSH, MOV, nine PUSH, IRETD to `code` with `flags`.
    fn enter(g: &mut Guest, flags: i32) -> Result {
        let mut back = g.create_label();
        keep_stack(g, back)?;
        vector(g)?;
        for word in [0, 0, 0, 0, 0, STACK, VM | IOPL_3 | flags, CODE as i32 / 16, 0] {
            g.push(word)?;
        }
        g.iretd()?;
        g.place(&mut back)
    }
    /// PUSH, MOV, MOV, MOV, nine PUSH, IRETD.
    const ENTERING: u64 = 14;
    fn put(g: &mut Guest, code: &[u8]) -> Result {
        (CODE..).zip(code).try_for_each(|(at, &byte)| g.mov(byte_ptr(at), u32::from(byte)))
    }
    /// Data segments are null.
    fn end(g: &mut Guest) -> Result {
        g.mov(edi, LAPIC)?;
        g.mov(dword_ptr(edi + EOI).ss(), 0)
    }
    &[
            Row {
                name: "IRETD to it",
                // NOP, INT 81h.
                prepare: |g| put(g, &[0x90, 0xCD, BACK]),
                counted: |g| enter(g, EFLAGS_IF),
                body: end,
                expected: |_| vec![("0", ENTERING)],
            },
            Row {
                name: "STI",
                // STI, NOP, NOP, INT 81h.
                prepare: |g| put(g, &[0xFB, 0x90, 0x90, 0xCD, BACK]),
                counted: |g| enter(g, 0),
                body: end,
                expected: |_| vec![("2", ENTERING + 2)],
            },
            Row {
                name: "POPF",
                // PUSH 0200h, POPF, NOP, INT 81h.
                prepare: |g| put(g, &[0x68, 0x00, 0x02, 0x9D, 0x90, 0xCD, BACK]),
                counted: |g| enter(g, 0),
                body: end,
                expected: |_| vec![("4", ENTERING + 2)],
            },
            Row {
                name: "IRET",
                // PUSH 0200h, PUSH CS, PUSH 8, IRET, NOP, INT 81h.
                prepare: |g| {
                    put(g, &[0x68, 0x00, 0x02, 0x0E, 0x68, 0x08, 0x00, 0xCF, 0x90, 0xCD, BACK])
                },
                counted: |g| enter(g, 0),
                body: end,
                expected: |_| vec![("8", ENTERING + 4)],
            },
        ]
};

/// A hardware task switch loads EFLAGS (SDM Vol. 3A, "Task Switching").
pub(super) const TASK_SWITCH: &[Row] = {
    /// That of processor 1, which is not there.
    const TASK: u16 = 0x50;
    const MINE: u16 = 0x48;
    const TSS: u32 = 0x10_2280;
    const TASK_STACK: u32 = SCRATCH + 0x1000;
    fn set_up(g: &mut Guest, entry: CodeLabel, eflags: u32) -> Result {
        g.store_address(dword_ptr(TSS + 32), entry)?;
        for (offset, value) in [
            (36, eflags | 2),
            (56, TASK_STACK),
            (72, KERNEL_SS.into()),
            (76, KERNEL_CS.into()),
            (80, KERNEL_SS.into()),
            (84, KERNEL_SS.into()),
            (88, 0),
            (92, 0),
            (96, 0),
        ] {
            g.mov(dword_ptr(TSS + offset), value)?;
        }
        Ok(())
    }
    &[
            Row {
                name: "JMP to a task",
                counted: |g| {
                    let (mut over, mut task) = (g.create_label(), g.create_label());
                    set_up(g, task, EFLAGS_IF as u32)?; // 10
                    vector(g)?; // 12
                    g.jmp_far(TASK, 0)?; // 13
                    g.jmp(over)?;
                    g.place(&mut task)?;
                    mark(g, "jmp")?;
                    g.nop()?;
                    g.jmp_far(MINE, 0)?;
                    g.place(&mut over)
                },
                body: end,
                expected: |_| vec![("jmp", 13)],
                ..ROW
            },
            Row {
                name: "IRETD of a task",
                prepare: enabled,
                counted: |g| {
                    let (mut over, mut task) = (g.create_label(), g.create_label());
                    set_up(g, task, 0)?; // 10
                    g.call_far(TASK, 0)?; // 11
                    mark(g, "iretd of a task")?;
                    g.jmp(over)?;
                    g.place(&mut task)?;
                    vector(g)?; // 13
                    g.nop()?; // 14
                    g.iretd()?; // 15
                    g.place(&mut over)
                },
                body: end,
                expected: |_| vec![("iretd of a task", 15)],
            },
        ]
};

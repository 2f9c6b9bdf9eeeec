//! A case on the software CPU: the native stub's bytes in a guest in 64-bit mode.

#![allow(unsafe_code, reason = "lends the guest its memory")]

use x86_cpu::{
    block::Translations,
    bus::{After, Bus, CpuidResult, RdpmcRequest, Refused, Uncounted},
    cpu::Cpu,
    descriptor::{DescriptorTable, Segment},
    features::Features,
    observe::{Cx, Plain},
    ram::{Ram, Region},
    run::Exit,
    timing::Budget,
};

use crate::{
    native::{SLOT, Stub, outcome, stub},
    state::{CODE, Case, DATA, DATA_LEN, FRAME, Outcome, frame},
};

/// Guest-physical layout: page tables, IDT, then what the case needs, page by page.
const TABLES: u64 = 0x1000;
const IDT: u64 = 0x8000;
const STACK: u64 = 0x9000;
const CODE_GPA: u64 = 0x10000;
const FRAME_GPA: u64 = 0x11000;
const DATA_GPA: u64 = 0x12000;
const HANDLERS_GPA: u64 = 0x15000;
/// Linear address of the exception handlers and of the final HLT.
const HANDLERS: u64 = 0x1003_0000;
const MEMORY: usize = 0x20000;

struct Nothing;

impl Bus for Nothing {
    fn mmio_read(&mut self, _: u64, _: u64, _: usize) -> u64 {
        u64::MAX
    }
    fn mmio_write(&mut self, _: u64, _: u64, _: usize, _: u64) {}
    fn io_read(&mut self, _: u64, _: u16, _: usize) -> u32 {
        u32::MAX
    }
    fn io_write(&mut self, _: u64, _: u16, _: usize, _: u32) {}
    fn rdmsr(&mut self, _: u64, _: u32, _: u32, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        Err(Refused)
    }
    fn wrmsr(
        &mut self,
        _: u64,
        _: u64,
        _: u32,
        _: u64,
        _: u32,
        _: Option<Uncounted<'_>>,
    ) -> Result<After, Refused> {
        Err(Refused)
    }
    fn rdpmc(&mut self, _: RdpmcRequest, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        Err(Refused)
    }
    fn cpuid(&mut self, _: u32, _: u32) -> CpuidResult {
        CpuidResult::default()
    }
    fn tsc(&mut self, time: u64) -> u64 {
        time
    }
    fn cr8(&mut self) -> u8 {
        0
    }
    fn set_cr8(&mut self, _: u64, _: u8) {}
    fn ferr(&mut self) {}
}

pub(crate) struct Soft {
    cpu: Cpu,
    ram: Ram,
    translations: Translations<Plain>,
    stub: Stub,
}

impl Soft {
    pub(crate) fn new(features: Features) -> Self {
        let memory = Box::leak(vec![0u8; MEMORY + 4096].into_boxed_slice());
        let host = memory.as_mut_ptr();
        // SAFETY: leaked, so it lives as long as the process; only the Ram uses it from here on.
        let ram = unsafe {
            let host = host.add(host.align_offset(4096));
            Ram::new(&[Region { gpa: 0, len: MEMORY as u64, host }])
        };
        let stub = stub();
        let word = |at: u64, value: u64| assert!(ram.write_bytes(at, &value.to_le_bytes()));
        // PML4 -> PDPT -> PD -> PT, all in the first gigabyte.
        word(TABLES, TABLES + 0x1007);
        word(TABLES + 0x1000, TABLES + 0x2007);
        let tables = [(CODE, TABLES + 0x3000), (0, TABLES + 0x4000)];
        for (linear, table) in tables {
            word(TABLES + 0x2000 + (linear >> 21) * 8, table | 7);
        }
        let map = |linear: u64, gpa: u64| {
            let table = if linear >= CODE { TABLES + 0x3000 } else { TABLES + 0x4000 };
            word(table + (linear >> 12 & 511) * 8, gpa | 7);
        };
        map(CODE, CODE_GPA);
        map(FRAME, FRAME_GPA);
        map(DATA, DATA_GPA);
        map(DATA + 4096, DATA_GPA + 4096);
        map(HANDLERS, HANDLERS_GPA);
        map(IDT, IDT);
        map(STACK, STACK);
        // Handlers of sixteen bytes: mov byte [FAULT], vector + 1; hlt. The 32nd only halts.
        for vector in 0..32u64 {
            let at = HANDLERS + vector * 16;
            let mut code = vec![0xc6, 0x04, 0x25];
            code.extend_from_slice(&((FRAME + frame::FAULT as u64) as u32).to_le_bytes());
            code.push(vector as u8 + 1);
            code.push(0xf4);
            if vector == 31 {
                code = vec![0xf4];
            }
            assert!(ram.write_bytes(HANDLERS_GPA + vector * 16, &code));
            let low = at & 0xffff | 8 << 16 | 0x8e00 << 32 | (at >> 16 & 0xffff) << 48;
            word(IDT + vector * 16, low);
            word(IDT + vector * 16 + 8, at >> 32);
        }
        // A GDT with 64-bit code at selector 8, for the gates.
        word(IDT + 0x800, 0);
        word(IDT + 0x808, 0x00af_9b00_0000_ffff);
        word(IDT + 0x810, 0x00cf_9300_0000_ffff);
        assert!(ram.write_bytes(CODE_GPA, &stub.bytes));
        Self { cpu: Cpu::new(features), ram, translations: Translations::new(), stub }
    }

    pub(crate) fn run(&mut self, case: &Case) -> Outcome {
        let mut slot = [0x90; SLOT];
        slot[..case.bytes.len()].copy_from_slice(&case.bytes);
        let write = |at: u64, bytes: &[u8]| assert!(self.ram.write_bytes(at, bytes));
        write(CODE_GPA + self.stub.slot as u64, &slot);
        write(FRAME_GPA + frame::FX_IN as u64, &case.fx);
        for (n, reg) in case.regs.iter().enumerate() {
            write(FRAME_GPA + (frame::REGS_IN + 8 * n) as u64, &reg.to_le_bytes());
        }
        write(FRAME_GPA + frame::FAULT as u64, &[0]);
        write(DATA_GPA, &case.data[..]);
        // The stub returns to the handler that only halts.
        write(STACK + 0xf00, &(HANDLERS + 31 * 16).to_le_bytes());
        let cpu = &mut self.cpu;
        let code = Segment { selector: 8, base: 0, limit: u32::MAX, attributes: 0xa09b };
        let data = Segment { selector: 16, base: 0, limit: u32::MAX, attributes: 0xc093 };
        cpu.set_control(0x8005_0033, TABLES, 0x620, 0xd00);
        for n in 0..6 {
            cpu.set_segment(n, if n == 1 { code } else { data });
        }
        cpu.gdtr = DescriptorTable { base: IDT + 0x800, limit: 0x17 };
        cpu.idtr = DescriptorTable { base: IDT, limit: 0x1ff };
        cpu.rip = CODE;
        cpu.set_gpr(4, STACK + 0xf00);
        cpu.set_rflags(2);
        cpu.halted = false;
        let until = cpu.time + 10_000;
        let mut cx = Cx { bus: &mut Nothing, ram: &self.ram, observer: Plain };
        loop {
            match cpu.run(&mut cx, &mut self.translations, Budget::until(until)) {
                Exit::Halt => break,
                Exit::Leave => {}
                other => panic!("{other:?} after {:02x?}", case.bytes),
            }
        }
        let mut page = [0; 4096];
        let mut data = vec![0; DATA_LEN];
        assert!(
            self.ram.read_bytes(FRAME_GPA, &mut page) && self.ram.read_bytes(DATA_GPA, &mut data)
        );
        outcome(&page, &data)
    }
}

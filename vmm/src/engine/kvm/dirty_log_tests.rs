//! Guests that write natively to code that the software engine has translated.

use std::result::Result;

use iced_x86::code_asm::{
    AsmRegister32, CodeAssembler, ax, cr0, cr3, cr4, ds, dword_ptr, eax, ebx, ecx, edx, es,
    fword_ptr, rax, rsp, ss,
};

use iced_x86::{BlockEncoderOptions, IcedError};

use super::tests::{PROTECTED, REAL, config, on_both, write_msr};
use super::*;
use crate::engine::kvm::host::Lacking;

/// PerfEvtSel0 of the K8 and the selects of this test: RETIRED_INSTRUCTIONS at all levels, with EN or
/// without (BKDG 26094, section 10.2).
const SELECT: u32 = 0xC001_0000;
const ENABLED: u32 = 0x0043_00C0;
const DISABLED: u32 = 0x0003_00C0;

/// A routine of 17 blocks in a page of its own: 16 times JMP to the next instruction, then MOV BL, 1
/// and RET.
const ROUTINE: u16 = 0x9000;
const BLOCKS: usize = 17;
/// The operand of its MOV.
const OPERAND: u16 = ROUTINE + 2 * 16 + 1;

/// A guest in real mode with two counted windows, the first of which executes the routine, and between
/// them a native MOV of 2 to the byte at `target`; the second calls the routine if it `calls_again`.
fn two_windows(target: u16, calls_again: bool) -> Config {
    let select = |value| write_msr(&[0x66], SELECT, u64::from(value));
    let call = |at: usize| {
        let distance = ROUTINE.wrapping_sub(REAL as u16 + at as u16 + 3);
        [&[0xE8][..], &distance.to_le_bytes()].concat()
    };
    let mut code = vec![];
    // XOR AX, AX; MOV DS, AX; MOV SS, AX; MOV SP, 7000h.
    code.extend([0x31, 0xC0, 0x8E, 0xD8, 0x8E, 0xD0, 0xBC, 0x00, 0x70]);
    code.extend(select(ENABLED));
    code.extend(call(code.len()));
    code.extend(select(DISABLED));
    // MOV BYTE [target], 2.
    code.extend([&[0xC6, 0x06][..], &target.to_le_bytes(), &[2]].concat());
    code.extend(select(ENABLED));
    if calls_again {
        code.extend(call(code.len()));
    }
    code.extend(select(DISABLED));
    // MOV AL, 0; OUT F4h, AL.
    code.extend([0xB0, 0x00, 0xE6, 0xF4]);
    code.resize(usize::from(ROUTINE) - REAL as usize, 0x90);
    code.extend([[0xEB, 0x00]; 16].concat());
    code.extend([0xB3, 1, 0xC3]);
    config(&code, REAL, 1, Some(Duration::from_secs(20)))
}

/// BL at the end, and the blocks that are translated then.
fn outcome((machine, end): &(Machine, End)) -> (u8, usize) {
    assert_eq!(*end, End::Exit(1));
    (machine.vcpus()[0].cpu.gpr(3) as u8, machine.soft.blocks())
}

/// The blocks at the end of a window: what loads the operands of WRMSR; WRMSR, which is a block of its
/// own.
const LEAVING: usize = 2;

/// The first window translates CALL, the routine and what ends the window, the second what ends it. All
/// of these blocks are there at the end, but for the routine's if a byte of its page was written,
/// wherever there.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn translations_survive_but_for_those_of_written_pages() {
    let all = 1 + BLOCKS + 2 * LEAVING;
    for (target, left) in [(0xA000, all), (0x9FFF, all - BLOCKS), (OPERAND, all - BLOCKS)] {
        for ran in on_both(&two_windows(target, false)) {
            assert_eq!(outcome(&ran), (1, left), "{target:#x}");
        }
    }
}

/// The second window calls the routine again, which executes what was written.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn what_was_written_is_executed() {
    let all = 1 + BLOCKS + LEAVING + 1 + LEAVING;
    for (target, expected) in [(0xA000, 1), (OPERAND, 2)] {
        for ran in on_both(&two_windows(target, true)) {
            assert_eq!(outcome(&ran), (expected, all));
        }
    }
}

/// On a host without such a log everything is translated anew: nothing but the last window is left.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn without_the_log_all_translations_go() {
    let lacking = Lacking { capability: Some(Capability::ManualDirtyLogProtect), vcpu: None };
    let host = Host::open_at(std::path::Path::new(host::DEVICE), lacking).unwrap();
    for (calls_again, left) in [(false, LEAVING), (true, 1 + BLOCKS + LEAVING)] {
        let config = two_windows(OPERAND, calls_again);
        let soft = Config { engine: EngineKind::Soft, ..config.clone() };
        let mut machine = Machine::new(&soft).unwrap();
        let mut kvm = Kvm::new(&host, &config, config.platform, &mut machine.memory).unwrap();
        let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
        let end = kvm.run(&mut machine, &Stop::new().unwrap(), None, &mut console).unwrap();
        let value = if calls_again { 2 } else { 1 };
        assert_eq!(outcome(&(machine, end)), (value, left));
    }
}

/// A word of the log for each 64 pages, a bit for each page of the slot.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_slot_knows_its_pages() {
    let config = config(&[0xF4], REAL, 1, None);
    let mut memory = Memory::new(&config.ram, None).unwrap();
    let kvm = Kvm::new(&Host::open().unwrap(), &config, config.platform, &mut memory).unwrap();
    let [slot] = &kvm.slots[..] else { panic!("4 MiB are in one piece") };
    assert_eq!(slot.words(), 16);
    assert_eq!([0, 0xFFF, 0x1000, 0x3F_FFFF].map(|gpa| slot.page(gpa)), [0, 0, 1, 1023].map(Some));
    assert_eq!(slot.page(0x40_0000), None);
}

// 64-bit code at CPL 3, which every kind of KVM executes on the host's processor itself.

const PML4: u64 = PROTECTED + 0x1000;
const PDPT: u64 = PROTECTED + 0x2000;
const DIRECTORY: u64 = PROTECTED + 0x3000;
const GDT: u64 = PROTECTED + 0x4000;
const GDT_POINTER: u64 = PROTECTED + 0x4100;
const IDT_POINTER: u64 = PROTECTED + 0x4110;
const TSS: u64 = PROTECTED + 0x4200;
const IDT: u64 = PROTECTED + 0x5000;
const STACK: u64 = PROTECTED + 0x8000;
const USER_STACK: u64 = PROTECTED + 0xA000;
const CODE: u64 = PROTECTED + 0x1_0000;
/// The pages with the functions.
const FUNCTIONS: u64 = 0x20_0000;
const PAGES: u64 = 16;

/// Data and 64-bit code of CPL 0 and CPL 3, and the TSS (AMD64 APM volume 2, sections 4.7 and 4.8).
const SEGMENTS: [u64; 7] = [
    0,
    0x00AF_9B00_0000_FFFF,
    0x00CF_9300_0000_FFFF,
    0x00CF_F300_0000_FFFF,
    0x00AF_FB00_0000_FFFF,
    0x0000_8900_0000_0067 | (TSS & 0xFF_FFFF) << 16,
    0,
];
const KERNEL_CS: u16 = 0x08;
const KERNEL_SS: u32 = 0x10;
const USER_SS: i32 = 0x18 | 3;
const USER_CS: i32 = 0x20 | 3;
const TASK: u32 = 0x28;
/// Vectors that user code enters the kernel with: to enable the counter, to disable it, to end.
const ENABLE: u8 = 0x80;
const DISABLE: u8 = 0x81;
const END: u8 = 0x82;

/// A linear congruential step and an output permutation.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 ^ self.0 >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD) >> 24) % n
    }
}

/// A function of the program: MOV, ADD, XOR of EAX with an immediate each; RET.
#[derive(Clone, Copy)]
struct Function {
    address: u64,
    operands: [u32; 3],
}

impl Function {
    const BYTES: u64 = 16;

    fn code(self) -> Vec<u8> {
        let ops = [0xB8, 0x05, 0x35].iter().zip(self.operands);
        let mut code: Vec<u8> =
            ops.flat_map(|(op, operand)| [&[*op][..], &operand.to_le_bytes()].concat()).collect();
        code.push(0xC3);
        code
    }

    /// What it returns in EAX.
    fn result(self) -> u32 {
        let [mov, add, xor] = self.operands;
        mov.wrapping_add(add) ^ xor
    }
}

/// A program being generated and, beside it, what the processor will have in EBX and in the operands.
struct Generator {
    random: Random,
    assembler: CodeAssembler,
    functions: Vec<Function>,
    sum: u32,
}

impl Generator {
    fn function(&mut self) -> usize {
        self.random.below(self.functions.len() as u64) as usize
    }

    /// MOV of a new operand into a function, or of data into a page with functions.
    fn write(&mut self) -> Result<(), IcedError> {
        let value = self.random.below(1 << 32) as u32;
        let n = self.function();
        let function = &mut self.functions[n];
        let address = match self.random.below(4) {
            3 => (function.address & !0xFFF) + 0x800,
            operand => {
                function.operands[operand as usize] = value;
                function.address + 5 * operand + 1
            }
        };
        self.assembler.mov(dword_ptr(address), value)
    }

    /// CALL of a function; ROL EBX, 5; ADD EBX, EAX.
    fn call(&mut self) -> Result<(), IcedError> {
        let n = self.function();
        let function = self.functions[n];
        self.sum = self.sum.rotate_left(5).wrapping_add(function.result());
        self.assembler.call(function.address)?;
        self.assembler.rol(ebx, 5)?;
        self.assembler.add(ebx, eax)
    }

    /// A round: writes and calls on the host's processor, then on the software engine, counted.
    fn round(&mut self) -> Result<(), IcedError> {
        for counted in [false, true] {
            if counted {
                self.assembler.int(i32::from(ENABLE))?;
            }
            for _ in 0..self.random.below(4) {
                self.write()?;
            }
            for _ in 0..self.random.below(4) + u64::from(counted) {
                self.call()?;
            }
        }
        self.assembler.int(i32::from(DISABLE))
    }
}

/// A handler that writes `select`, if there is one, and returns; else one that ends the guest.
fn handler(a: &mut CodeAssembler, select: Option<u32>) -> Result<(), IcedError> {
    match select {
        Some(select) => {
            a.mov(ecx, SELECT)?;
            a.mov(eax, select)?;
            a.xor(edx, edx)?;
            a.wrmsr()?;
            a.iretq()
        }
        None => {
            a.mov(eax, 0)?;
            a.out(0xF4, eax)
        }
    }
}

/// Writes `content` at guest-physical `address` of an image that is loaded at [`PROTECTED`].
fn put(image: &mut Vec<u8>, address: u64, content: &[u8]) {
    let start = (address - PROTECTED) as usize;
    image.resize(image.len().max(start + content.len()), 0);
    image[start..start + content.len()].copy_from_slice(content);
}

fn quads(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// 32-bit protected mode to 64-bit mode (AMD64 APM volume 2, section 14.6.1), 4 MiB mapped one to one.
fn set_up(image: &mut Vec<u8>) -> Result<(), IcedError> {
    let set = |a: &mut CodeAssembler, register: AsmRegister32, value: u32| a.mov(register, value);
    let mut a = CodeAssembler::new(32)?;
    a.lgdt(fword_ptr(GDT_POINTER as u32))?;
    a.lidt(fword_ptr(IDT_POINTER as u32))?;
    // PAE; LME; PE, ET, PG.
    set(&mut a, eax, 1 << 5)?;
    a.mov(cr4, eax)?;
    set(&mut a, eax, PML4 as u32)?;
    a.mov(cr3, eax)?;
    set(&mut a, ecx, 0xC000_0080)?;
    set(&mut a, eax, 1 << 8)?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    set(&mut a, eax, 1 | 1 << 4 | 1 << 31)?;
    a.mov(cr0, eax)?;
    a.jmp_far(KERNEL_CS, CODE as u32)?;
    put(image, PROTECTED, &a.assemble(PROTECTED)?);
    // Present, writable, open to CPL 3; large.
    put(image, PML4, &quads(&[PDPT | 7]));
    put(image, PDPT, &quads(&[DIRECTORY | 7]));
    put(image, DIRECTORY, &quads(&[0x87, 0x20_0087]));
    put(image, GDT, &quads(&SEGMENTS));
    put(image, GDT_POINTER, &(8 * SEGMENTS.len() as u16 - 1).to_le_bytes());
    put(image, GDT_POINTER + 2, &GDT.to_le_bytes());
    put(image, IDT_POINTER, &0xFFF_u16.to_le_bytes());
    put(image, IDT_POINTER + 2, &IDT.to_le_bytes());
    // RSP0 (section 12.2.5).
    put(image, TSS + 4, &STACK.to_le_bytes());
    Ok(())
}

const ROUNDS: usize = 60;

/// An image made with `seed`, and EBX at its end.
pub(super) fn program(seed: u64) -> Result<(Vec<u8>, u32), IcedError> {
    let mut random = Random(seed);
    // Two in a page, the second of which is at its end.
    let places =
        (0..PAGES).flat_map(|page| [0x40, 0x1000 - Function::BYTES].map(|at| page << 12 | at));
    let functions: Vec<_> = places
        .map(|place| Function {
            address: FUNCTIONS + place,
            operands: std::array::from_fn(|_| random.below(1 << 32) as u32),
        })
        .collect();
    let mut image = Vec::new();
    set_up(&mut image)?;
    for function in &functions {
        put(&mut image, function.address, &function.code());
    }

    let mut a = CodeAssembler::new(64)?;
    a.mov(eax, KERNEL_SS)?;
    a.mov(ds, eax)?;
    a.mov(es, eax)?;
    a.mov(ss, eax)?;
    a.mov(rsp, STACK)?;
    a.mov(eax, TASK)?;
    a.ltr(ax)?;
    let mut user = a.create_label();
    // To CPL 3: SS, RSP, RFLAGS, CS, RIP.
    a.push(USER_SS)?;
    a.push(USER_STACK as i32)?;
    a.push(2)?;
    a.push(USER_CS)?;
    a.lea(rax, iced_x86::code_asm::ptr(user))?;
    a.push(rax)?;
    // The engine looks where the handlers are when the processor leaves the guest.
    a.out(0x80, eax)?;
    a.iretq()?;
    let mut gates = Vec::new();
    let entries = [(ENABLE, Some(ENABLED)), (DISABLE, Some(DISABLED)), (END, None)];
    // #UD and #GP end it as well, with another EBX.
    for (vector, select) in entries.into_iter().chain([(6, None), (13, None)]) {
        let mut label = a.create_label();
        a.set_label(&mut label)?;
        handler(&mut a, select)?;
        gates.push((vector, label));
    }
    a.set_label(&mut user)?;
    a.xor(ebx, ebx)?;
    let mut generator = Generator { random, assembler: a, functions, sum: 0 };
    for _ in 0..ROUNDS {
        generator.round()?;
    }
    let Generator { assembler: mut a, sum, .. } = generator;
    a.int(i32::from(END))?;
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let code = a.assemble_options(CODE, options)?;
    put(&mut image, CODE, &code.inner.code_buffer);
    for (vector, label) in gates {
        let offset = code.label_ip(&label)?;
        // An interrupt gate, present, open to CPL 3 (section 4.8.4).
        let gate = offset & 0xFFFF
            | u64::from(KERNEL_CS) << 16
            | 0xEE00 << 32
            | (offset >> 16 & 0xFFFF) << 48;
        put(&mut image, IDT + 16 * u64::from(vector), &gate.to_le_bytes());
    }
    Ok((image, sum))
}

/// Functions that are overwritten natively and by the software engine, at random, return what their
/// operands are at the time, wherever they are called. Each round's code, which is executed but once,
/// is still translated at the end.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn generated_programs_execute_what_is_written() {
    for seed in 1..=3 {
        let (image, sum) = program(seed).unwrap();
        for (machine, end) in on_both(&config(&image, PROTECTED, 1, Some(Duration::from_secs(60))))
        {
            assert_eq!(end, End::Exit(1), "seed {seed}");
            let sum_of_guest = machine.vcpus()[0].cpu.gpr(3);
            assert_eq!(sum_of_guest, u64::from(sum), "seed {seed}");
            assert!(machine.soft.blocks() > ROUNDS, "seed {seed}: {}", machine.soft.blocks());
        }
    }
}

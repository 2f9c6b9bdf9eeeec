//! Bare-metal 32-bit programs, assembled at run time.
//!
//! Flat protected mode without paging and without an instruction younger than the Pentium runs on
//! every part. The image is loaded at 1 MiB and starts in 32-bit protected mode with flat segments.
//! What it needs to stand on its own comes first: GDT, IDT, one TSS and three stacks a processor,
//! and the local APIC enabled. Then it runs what the caller assembled.
//!
//! ```text
//! 10_0000h  stub           10_2000h  GDT      10_4000h  data of the program
//! 10_1000h  trampoline     10_2200h  TSSs     10_8000h  stacks, 16 KiB a processor
//!                          10_3000h  IDT      13_0000h  code, then constants
//! ```

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};

use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegister32, CodeAssembler, CodeAssemblerResult, CodeLabel, al, ax, cr0,
    cr4, ds, dword_ptr, eax, ecx, edi, edx, es, esp, fs, fword_ptr, gs, ss,
};
use iced_x86::{BlockEncoderOptions, Code, IcedError, Instruction};

use crate::irq::lapic_registers::offset;

/// Where the image is loaded and where its first byte runs.
pub const LOAD_ADDRESS: u32 = 0x10_0000;
/// Real-mode code that brings a started processor to [`Program::set_start_up`]'s label, as long as
/// [`TRAMPOLINE_BYTES`]. It runs at the start of any 4 KiB page below 1 MiB.
pub const TRAMPOLINE: u32 = LOAD_ADDRESS + 0x1000;
/// Room for the trampoline.
pub const TRAMPOLINE_BYTES: u32 = 64;
/// One page for the program's variables, zero at the start.
pub const DATA: u32 = LOAD_ADDRESS + 0x4000;
/// Where the code begins.
pub const CODE: u32 = LOAD_ADDRESS + 0x3_0000;

/// Processors that have stacks and a TSS, by local APIC identifier.
pub const PROCESSORS: u32 = 8;
/// The stacks of processor n are this times n further up.
pub const STACKS_SIZE: u32 = 0x4000;
/// The stacks of processor 0; multiples of [`STACKS_SIZE`], so that a stack pointer shows whose
/// stack it is.
pub const STACKS: u32 = LOAD_ADDRESS + 0x8000;
/// Top of the stack for code above CPL 0, within a processor's stacks.
pub const USER_STACK: u32 = 0x2000;
/// Top of the stack that an interrupt from above CPL 0 switches to: ESP0 of the TSS, within a
/// processor's stacks. The words from here to 16 bytes further up belong to the program.
pub const INTERRUPT_STACK: u32 = 0x3000 - 16;
/// Top of the stack that the program starts on, within a processor's stacks and not behind them.
pub const KERNEL_STACK: u32 = 0x4000 - 16;

/// Code segment of CPL 0. Those of CPL 1 to 3 are [`segments`].
pub const KERNEL_CS: u16 = 0x08;
/// Data segment of CPL 0.
pub const KERNEL_SS: u16 = 0x10;
/// TSS of processor 0.
const TASK: u16 = 0x48;

/// Register page of the local APIC.
pub const LAPIC: u32 = 0xFEE0_0000;
/// Local APIC identifier register: bits 31:24.
pub const LAPIC_ID: i32 = offset::ID as i32;
/// Spurious-interrupt vector register: bit 8 enables the local APIC.
const LAPIC_SVR: i32 = offset::SVR as i32;
const SPURIOUS_VECTOR: u32 = 0xFF;

const GDT: u32 = LOAD_ADDRESS + 0x2000;
/// Operands of LGDT and LIDT.
const GDT_POINTER: u32 = LOAD_ADDRESS + 0x2100;
const IDT_POINTER: u32 = LOAD_ADDRESS + 0x2110;
const TSS: u32 = LOAD_ADDRESS + 0x2200;
const TSS_SIZE: u32 = 0x80;
const IDT: u32 = LOAD_ADDRESS + 0x3000;

const TSS_LIMIT: u32 = 0x67;
/// Flat descriptors (SDM Vol. 3A, "Segment Descriptors"): code, then data, of each CPL. The order
/// is the one that SYSCALL and SYSRET expect.
const SEGMENTS: [u64; 9] = [
    0,
    0x00CF_9B00_0000_FFFF,
    0x00CF_9300_0000_FFFF,
    0x00CF_BB00_0000_FFFF,
    0x00CF_B300_0000_FFFF,
    0x00CF_DB00_0000_FFFF,
    0x00CF_D300_0000_FFFF,
    0x00CF_FB00_0000_FFFF,
    0x00CF_F300_0000_FFFF,
];

/// PE, MP, ET, NE.
const CR0: u32 = 1 | 1 << 1 | 1 << 4 | 1 << 5;
/// PCE: RDPMC is open to CPL 3 until the program clears it.
const CR4: u32 = 1 << 8;

/// Stands in the code for the address of a label until that is known. Too large for a byte, so that
/// the assembler leaves 32 bits.
const PLACEHOLDER: u32 = 0x7FFF_FFFF;

/// A program ready to be loaded and run.
#[derive(Clone, Debug)]
pub struct Image {
    /// The bytes from [`Image::load_address`] on.
    pub bytes: Vec<u8>,
    /// Guest-physical address of the first byte, which is also where execution starts, in 32-bit
    /// protected mode with flat segments.
    pub load_address: u64,
    /// Places in the code, by the names that [`Program::mark`] gave them, in order.
    pub symbols: Vec<(String, u64)>,
}

impl Image {
    /// Address of the place called `name`.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|(known, _)| known == name).map(|&(_, address)| address)
    }
}

/// Selectors of code and stack at `cpl`, with that RPL.
#[must_use]
pub fn segments(cpl: u8) -> (u16, u16) {
    let cpl = u16::from(cpl & 3);
    ((KERNEL_CS + 0x10 * cpl) | cpl, (KERNEL_SS + 0x10 * cpl) | cpl)
}

struct Gate {
    vector: u8,
    handler: CodeLabel,
    /// Highest CPL from which INT n may use it.
    dpl: u8,
}

/// Four bytes of code that are to hold the address of a label.
struct FixUp {
    /// Behind the four bytes.
    behind: CodeLabel,
    target: CodeLabel,
}

/// A program being assembled. It is the assembler too: every instruction is a method.
pub struct Program {
    assembler: CodeAssembler,
    /// Labels that have a place. A copy of a label from before does not know it.
    placed: HashSet<CodeLabel>,
    gates: Vec<Gate>,
    fix_ups: Vec<FixUp>,
    start_up: Option<CodeLabel>,
    symbols: Vec<(String, CodeLabel)>,
    constants: Vec<(CodeLabel, Vec<u8>)>,
}

impl Deref for Program {
    type Target = CodeAssembler;

    fn deref(&self) -> &CodeAssembler {
        &self.assembler
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut CodeAssembler {
        &mut self.assembler
    }
}

impl Program {
    /// A program that so far does nothing but set up the processor. What is assembled next runs at
    /// CPL 0 with interrupts disabled, on the kernel stack of processor 0.
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn new() -> Result<Self, IcedError> {
        let mut program = Self {
            assembler: CodeAssembler::new(32)?,
            placed: HashSet::new(),
            gates: Vec::new(),
            fix_ups: Vec::new(),
            start_up: None,
            symbols: Vec::new(),
            constants: Vec::new(),
        };
        program.set_up_processor()?;
        Ok(program)
    }

    /// What every processor does first, with the GDT of this program: segments, its own stack and
    /// TSS, IDT, x87, local APIC.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn set_up_processor(&mut self) -> Result<(), IcedError> {
        self.set_up_segments()?;
        self.mov(eax, dword_ptr(LAPIC + LAPIC_ID as u32))?;
        self.shr(eax, 24)?;
        self.mov(ecx, eax)?;
        self.shl(ecx, STACKS_SIZE.trailing_zeros())?;
        self.add(ecx, (STACKS + KERNEL_STACK) as i32)?;
        self.mov(esp, ecx)?;
        self.lidt(fword_ptr(IDT_POINTER))?;
        self.shl(eax, 3)?;
        self.add(eax, i32::from(TASK))?;
        self.ltr(ax)?;
        self.fninit()?;
        self.write_lapic(LAPIC_SVR, 1 << 8 | SPURIOUS_VECTOR)
    }

    /// What a processor without a TSS of its own does instead of [`Self::set_up_processor`]: this, a stack
    /// of the caller's choice, and [`Self::set_up_interrupts`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn set_up_segments(&mut self) -> Result<(), IcedError> {
        self.mov(eax, u32::from(KERNEL_SS))?;
        self.mov(ss, eax)?;
        // A return to an outer level would clear those that it may not use.
        self.mov(eax, u32::from(segments(3).1))?;
        self.mov(ds, eax)?;
        self.mov(es, eax)?;
        self.mov(fs, eax)?;
        self.mov(gs, eax)?;
        self.mov(eax, CR4)?;
        self.mov(cr4, eax)?;
        self.mov(eax, CR0)?;
        self.mov(cr0, eax)
    }

    /// IDT, x87 and local APIC.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn set_up_interrupts(&mut self) -> Result<(), IcedError> {
        self.lidt(fword_ptr(IDT_POINTER))?;
        self.fninit()?;
        self.write_lapic(LAPIC_SVR, 1 << 8 | SPURIOUS_VECTOR)
    }

    /// Puts `label` here. Several labels may be at one place.
    ///
    /// # Errors
    /// If the label is somewhere already.
    pub fn place(&mut self, label: &mut CodeLabel) -> Result<(), IcedError> {
        self.set_label(label)?;
        self.placed.insert(*label);
        self.zero_bytes()
    }

    /// A new label, here.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn here(&mut self) -> Result<CodeLabel, IcedError> {
        let mut label = self.create_label();
        self.place(&mut label)?;
        Ok(label)
    }

    /// Names this place in [`Image::symbols`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn mark(&mut self, name: &str) -> Result<CodeLabel, IcedError> {
        let label = self.here()?;
        self.symbols.push((name.into(), label));
        Ok(label)
    }

    /// Sends `vector` to `handler` through an interrupt gate, callable by INT n up to CPL `dpl`.
    pub fn gate(&mut self, vector: u8, handler: CodeLabel, dpl: u8) {
        self.gates.push(Gate { vector, handler, dpl });
    }

    /// Where a processor goes that [`TRAMPOLINE`] has brought to 32-bit protected mode, with the
    /// GDT of this program and nothing else set up.
    pub fn set_start_up(&mut self, entry: CodeLabel) {
        self.start_up = Some(entry);
    }

    /// MOV of the address of `target` to a register.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn address(&mut self, to: AsmRegister32, target: CodeLabel) -> Result<(), IcedError> {
        self.mov(to, PLACEHOLDER)?;
        self.fix_up(target)
    }

    /// MOV of the address of `target` to memory.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn store_address(
        &mut self,
        to: AsmMemoryOperand,
        target: CodeLabel,
    ) -> Result<(), IcedError> {
        self.mov(to, PLACEHOLDER)?;
        self.fix_up(target)
    }

    /// PUSH of the address of `target`.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn push_address(&mut self, target: CodeLabel) -> Result<(), IcedError> {
        self.push(PLACEHOLDER)?;
        self.fix_up(target)
    }

    /// The last four bytes will hold the address of `target`.
    fn fix_up(&mut self, target: CodeLabel) -> Result<(), IcedError> {
        let behind = self.here()?;
        self.fix_ups.push(FixUp { behind, target });
        Ok(())
    }

    /// WRMSR of `value` to `index`: MOV, MOV, MOV, WRMSR. Changes EAX, ECX, EDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn write_msr(&mut self, index: u32, value: u64) -> Result<(), IcedError> {
        self.mov(ecx, index)?;
        self.mov(eax, value as u32)?;
        self.mov(edx, (value >> 32) as u32)?;
        self.wrmsr()
    }

    /// Writes a register of the local APIC: MOV, MOV. Changes EDI.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn write_lapic(&mut self, offset: i32, value: u32) -> Result<(), IcedError> {
        self.mov(edi, LAPIC)?;
        self.mov(dword_ptr(edi + offset), value)
    }

    /// IRETD to `target` at `cpl`, 1 to 3, on the processor's own user stack, with `eflags`: MOV,
    /// AND, ADD, PUSH five times, IRETD. Changes EAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn enter(&mut self, cpl: u8, target: CodeLabel, eflags: i32) -> Result<(), IcedError> {
        let (code, stack) = segments(cpl);
        self.mov(eax, esp)?;
        self.and(eax, -(STACKS_SIZE as i32))?;
        self.add(eax, USER_STACK as i32)?;
        self.push(i32::from(stack))?;
        self.push(eax)?;
        self.push(eflags)?;
        self.push(i32::from(code))?;
        self.push_address(target)?;
        self.iretd()
    }

    /// Constant bytes, placed behind the code.
    pub fn constant(&mut self, bytes: &[u8]) -> CodeLabel {
        let label = self.create_label();
        self.constants.push((label, bytes.to_vec()));
        label
    }

    /// The finished image.
    ///
    /// # Errors
    /// If an instruction cannot be encoded or a label has no place.
    pub fn finish(mut self) -> Result<Image, IcedError> {
        for (mut label, bytes) in std::mem::take(&mut self.constants) {
            self.place(&mut label)?;
            self.db(&bytes)?;
        }
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let code = self.assembler.assemble_options(CODE.into(), options)?;

        let mut bytes = stub()?;
        if let Some(entry) = self.start_up {
            put(&mut bytes, TRAMPOLINE, &trampoline(self.address_of(&code, entry)?)?);
        }
        put(&mut bytes, GDT, &quads(&SEGMENTS));
        put(&mut bytes, IDT_POINTER, &pointer(IDT, 0x7FF));
        for n in 0..PROCESSORS {
            put(&mut bytes, GDT + u32::from(TASK) + 8 * n, &quads(&[task_descriptor(n)]));
            put(&mut bytes, TSS + TSS_SIZE * n, &task_state(n));
        }
        put(&mut bytes, GDT_POINTER, &gdt_pointer());
        for gate in &self.gates {
            let descriptor = gate_descriptor(gate, self.address_of(&code, gate.handler)?);
            put(&mut bytes, IDT + 8 * u32::from(gate.vector), &quads(&[descriptor]));
        }
        put(&mut bytes, CODE, &code.inner.code_buffer);
        for fix_up in &self.fix_ups {
            let target = self.address_of(&code, fix_up.target)?;
            let behind = self.address_of(&code, fix_up.behind)?;
            put(&mut bytes, behind - 4, &target.to_le_bytes());
        }
        let symbols = self
            .symbols
            .iter()
            .map(|(name, label)| Ok((name.clone(), self.address_of(&code, *label)?.into())))
            .collect::<Result<_, IcedError>>()?;
        Ok(Image { bytes, load_address: LOAD_ADDRESS.into(), symbols })
    }
}

impl Program {
    /// Where `label` is in `code`.
    fn address_of(&self, code: &CodeAssemblerResult, label: CodeLabel) -> Result<u32, IcedError> {
        Ok(code.label_ip(self.placed.get(&label).unwrap_or(&label))? as u32)
    }
}

/// The first instructions: from the loader's GDT to this one.
fn stub() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(32)?;
    a.lgdt(fword_ptr(GDT_POINTER))?;
    a.jmp_far(KERNEL_CS, CODE)?;
    a.assemble(LOAD_ADDRESS.into())
}

/// Real mode, CS = address / 16 and IP = 0 behind a start-up IPI, to 32-bit protected mode at
/// `entry`. The operand of LGDT is the last of its bytes; a base of 24 bits is enough for the GDT.
fn trampoline(entry: u32) -> Result<Vec<u8>, IcedError> {
    const POINTER: u32 = TRAMPOLINE_BYTES - 6;
    const PROTECTION_ENABLE: i32 = 1;
    let mut a = CodeAssembler::new(16)?;
    a.cli()?;
    a.lgdt(fword_ptr(POINTER).cs())?;
    a.mov(eax, cr0)?;
    a.or(al, PROTECTION_ENABLE)?;
    a.mov(cr0, eax)?;
    a.add_instruction(Instruction::with_far_branch(Code::Jmp_ptr1632, KERNEL_CS, entry)?)?;
    let mut bytes = a.assemble(0)?;
    bytes.resize(POINTER as usize, 0);
    bytes.extend(gdt_pointer());
    Ok(bytes)
}

/// Writes `content` at guest-physical `address`, growing the image with zeros.
fn put(image: &mut Vec<u8>, address: u32, content: &[u8]) {
    let start = (address - LOAD_ADDRESS) as usize;
    let end = start + content.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[start..end].copy_from_slice(content);
}

fn quads(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Operand of LGDT and LIDT: limit, then base.
fn pointer(base: u32, limit: u16) -> Vec<u8> {
    [&limit.to_le_bytes()[..], &base.to_le_bytes()[..]].concat()
}

fn gdt_pointer() -> Vec<u8> {
    pointer(GDT, TASK + 8 * PROCESSORS as u16 - 1)
}

/// Available 32-bit TSS of processor `n` (SDM Vol. 3A, "TSS Descriptor").
fn task_descriptor(n: u32) -> u64 {
    let base = u64::from(TSS + TSS_SIZE * n);
    u64::from(TSS_LIMIT) | (base & 0xFF_FFFF) << 16 | 0x89 << 40 | (base >> 24) << 56
}

/// The 32-bit TSS of processor `n` (SDM Vol. 3A, "Task-State Segment"): ESP0 at 4, SS0 at 8, no I/O
/// permission bitmap.
fn task_state(n: u32) -> Vec<u8> {
    let mut state = vec![0; TSS_LIMIT as usize + 1];
    let stack = STACKS + STACKS_SIZE * n + INTERRUPT_STACK;
    state[4..8].copy_from_slice(&stack.to_le_bytes());
    state[8..10].copy_from_slice(&KERNEL_SS.to_le_bytes());
    state[0x66..0x68].copy_from_slice(&(TSS_LIMIT as u16 + 1).to_le_bytes());
    state
}

/// 32-bit interrupt gate (SDM Vol. 3A, "IDT Descriptors").
fn gate_descriptor(gate: &Gate, handler: u32) -> u64 {
    let handler = u64::from(handler);
    let kind = 0x8E | u64::from(gate.dpl & 3) << 5;
    handler & 0xFFFF | u64::from(KERNEL_CS) << 16 | kind << 40 | (handler >> 16 & 0xFFFF) << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quad(image: &Image, address: u64) -> u64 {
        let at = (address - image.load_address) as usize;
        u64::from_le_bytes(image.bytes[at..at + 8].try_into().unwrap())
    }

    fn dword(image: &Image, address: u64) -> u32 {
        let at = (address - image.load_address) as usize;
        u32::from_le_bytes(image.bytes[at..at + 4].try_into().unwrap())
    }

    /// SDM Vol. 3A, figures of the TSS descriptor, the 32-bit TSS and the interrupt gate.
    #[test]
    fn system_descriptors() {
        let mut p = Program::new().unwrap();
        let entry = p.mark("entry").unwrap();
        p.nop().unwrap();
        p.gate(0x80, entry, 3);
        let image = p.finish().unwrap();

        // TSSs at 10_2200h and every 80h behind: base 23:0 from bit 16 on, limit 67h, present,
        // type 9.
        assert_eq!(quad(&image, 0x10_2048), 0x0000_8910_2200_0067);
        assert_eq!(quad(&image, 0x10_2080), 0x0000_8910_2580_0067);
        // Code begins at 13_0000h. Offset 15:0, selector 8, present DPL 3 type Eh, offset 31:16.
        let offset = image.symbol("entry").unwrap();
        assert!(offset > 0x13_0000 && offset < 0x13_0100);
        assert_eq!(quad(&image, 0x10_3400), 0x0013_EE00_0008_0000 | (offset & 0xFFFF));
        // A vector without a handler is not present.
        assert_eq!(quad(&image, 0x10_3408), 0);
        // ESP0 and SS0 of processors 0 and 7.
        assert_eq!(quad(&image, 0x10_2204), 0x10_0010_AFF0);
        assert_eq!(quad(&image, 0x10_2584), 0x10_0012_6FF0);
        // LGDT: 17 descriptors; LIDT: 256.
        assert_eq!(quad(&image, 0x10_2100) & 0xFFFF_FFFF_FFFF, 0x0010_2000_0087);
        assert_eq!(quad(&image, 0x10_2110) & 0xFFFF_FFFF_FFFF, 0x0010_3000_07FF);
    }

    /// SDM Vol. 3A, "Segment Descriptors": base 0, limit FFFFFh in pages, 32 bit; code type Bh, data
    /// type 3, DPL equal to the RPL of the selector.
    #[test]
    fn segments_are_flat() {
        let image = Program::new().unwrap().finish().unwrap();
        for (cpl, code, stack) in
            [(0, 0x08, 0x10), (1, 0x19, 0x21), (2, 0x2A, 0x32), (3, 0x3B, 0x43)]
        {
            assert_eq!(segments(cpl), (code, stack));
            for (selector, kind) in [(code, 0x9B), (stack, 0x93)] {
                let descriptor = quad(&image, 0x10_2000 + u64::from(selector & !7));
                let access = kind | u64::from(cpl) << 5;
                assert_eq!(descriptor, 0x00CF_0000_0000_FFFF | access << 40);
            }
        }
    }

    /// Where an instruction names a label, its last four bytes hold the address.
    #[test]
    fn addresses_are_fixed_up() {
        let mut p = Program::new().unwrap();
        let target = p.mark("target").unwrap();
        p.address(eax, target).unwrap();
        p.push_address(target).unwrap();
        p.store_address(dword_ptr(DATA), target).unwrap();
        let image = p.finish().unwrap();
        let at = image.symbol("target").unwrap();
        // MOV EAX, imm32; PUSH imm32; MOV m32, imm32 with a ModRM byte and a displacement.
        for (offset, operand) in [(0, 1), (5, 1), (10, 6)] {
            assert_eq!(u64::from(dword(&image, at + offset + operand)), at, "at {offset}");
        }
    }

    /// The trampoline in its bytes: CLI; LGDT CS:[3Ah]; MOV EAX, CR0; OR AL, 1; MOV CR0, EAX; far
    /// jump to 08h:entry, with 66h for 32 bits.
    #[test]
    fn the_trampoline_is_real_mode_code() {
        let bytes = trampoline(0x0013_4567).unwrap();
        assert_eq!(bytes.len(), 64);
        let code = [
            &[0xFA][..],
            &[0x2E, 0x0F, 0x01, 0x16, 0x3A, 0x00],
            &[0x0F, 0x20, 0xC0],
            &[0x0C, 0x01],
            &[0x0F, 0x22, 0xC0],
            &[0x66, 0xEA, 0x67, 0x45, 0x13, 0x00, 0x08, 0x00],
        ]
        .concat();
        assert_eq!(bytes[..code.len()], code);
        assert_eq!(bytes[58..], [0x87, 0x00, 0x00, 0x20, 0x10, 0x00]);
    }

    #[test]
    fn several_labels_at_one_place() {
        let mut p = Program::new().unwrap();
        let mut label = p.create_label();
        p.place(&mut label).unwrap();
        p.mark("a").unwrap();
        p.mark("b").unwrap();
        p.jmp(label).unwrap();
        let image = p.finish().unwrap();
        assert_eq!(image.symbol("a"), image.symbol("b"));
        assert_eq!(image.symbol("c"), None);
    }
}

//! Bare-metal 64-bit programs, assembled at run time.
//!
//! The image is loaded at 1 MiB and starts in 32-bit protected mode with flat segments. Its stub
//! enters 64-bit mode with the first 4 GiB mapped one to one (2 MiB pages), open to CPL 3.
//!
//! ```text
//! 10_0000h  stub                           10_9000h  top of the stack of CPL 0
//! 10_1000h  page tables                    10_9000h  IDT
//! 10_7000h  GDT, pointers, TSS             10_B000h  top of the stack of CPL 3
//!                                          11_0000h  code
//! ```

use std::ops::{Deref, DerefMut};

use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, ax, cr0, cr3, cr4, ds, eax, ecx, edx, es, fword_ptr, ptr, rax, rsp,
    ss,
};
use iced_x86::{BlockEncoderOptions, IcedError};
use vpmu::program::Image;

const LOAD_ADDRESS: u64 = 0x10_0000;
const STACK: u64 = LOAD_ADDRESS + 0x9000;
const CODE: u64 = LOAD_ADDRESS + 0x1_0000;

const PML4: u64 = LOAD_ADDRESS + 0x1000;
const PDPT: u64 = LOAD_ADDRESS + 0x2000;
const DIRECTORIES: u64 = LOAD_ADDRESS + 0x3000;
const GDT: u64 = LOAD_ADDRESS + 0x7000;
const GDT_POINTER: u64 = LOAD_ADDRESS + 0x7100;
const IDT_POINTER: u64 = LOAD_ADDRESS + 0x7110;
const TSS: u64 = LOAD_ADDRESS + 0x7200;
const IDT: u64 = LOAD_ADDRESS + 0x9000;
const USER_STACK: u64 = LOAD_ADDRESS + 0xB000;

const KERNEL_CS: u16 = 0x08;
const KERNEL_SS: u32 = 0x10;
const USER_SS: i32 = 0x18 | 3;
const USER_CS: i32 = 0x20 | 3;
const TASK: u32 = 0x28;
/// Data and 64-bit code of CPL 0 and 3 (APM volume 2, sections 4.7 and 4.8), and the lower half of
/// the TSS's descriptor, whose upper half is zero (section 4.8.3).
const SEGMENTS: [u64; 7] = [
    0,
    0x00AF_9B00_0000_FFFF,
    0x00CF_9300_0000_FFFF,
    0x00CF_F300_0000_FFFF,
    0x00AF_FB00_0000_FFFF,
    0x0000_8900_0000_0067 | (TSS & 0xFF_FFFF) << 16,
    0,
];
/// Offset of RSP0 in a 64-bit TSS (APM volume 2, section 12.2.5).
const RSP0: u64 = 4;
/// An interrupt gate of 64-bit mode, present, open to CPL 3 (APM volume 2, section 4.8.4).
const INTERRUPT_GATE: u64 = 0xEE00 << 32;

/// PAE, PCE.
const CR4: u32 = 1 << 5 | 1 << 8;
/// PE, MP, ET, NE, PG.
const CR0: u32 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 31;
const EFER: u32 = 0xC000_0080;
/// LME.
const EFER_VALUE: u32 = 1 << 8;

/// A program being assembled. It is the assembler too: every instruction is a method.
pub(crate) struct Program {
    assembler: CodeAssembler,
    /// Vectors and their handlers.
    gates: Vec<(u8, CodeLabel)>,
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
    /// CPL 0 with interrupts disabled.
    pub(crate) fn new() -> Result<Self, IcedError> {
        let mut a = CodeAssembler::new(64)?;
        a.mov(eax, KERNEL_SS)?;
        a.mov(ds, eax)?;
        a.mov(es, eax)?;
        a.mov(ss, eax)?;
        a.mov(rsp, STACK)?;
        a.mov(eax, TASK)?;
        a.ltr(ax)?;
        Ok(Self { assembler: a, gates: Vec::new() })
    }

    /// Puts `label` here.
    pub(crate) fn place(&mut self, label: &mut CodeLabel) -> Result<(), IcedError> {
        self.set_label(label)?;
        self.zero_bytes()
    }

    /// A new label, here.
    pub(crate) fn here(&mut self) -> Result<CodeLabel, IcedError> {
        let mut label = self.create_label();
        self.place(&mut label)?;
        Ok(label)
    }

    /// WRMSR of `value` to `index`. Changes RAX, RCX, RDX.
    pub(crate) fn write_msr(&mut self, index: u32, value: u64) -> Result<(), IcedError> {
        self.mov(ecx, index)?;
        self.mov(eax, value as u32)?;
        self.mov(edx, (value >> 32) as u32)?;
        self.wrmsr()
    }

    /// Sends `vector` to `handler`, which has a place already, on a fresh stack if it comes from
    /// CPL 3.
    pub(crate) fn gate(&mut self, vector: u8, handler: CodeLabel) {
        self.gates.push((vector, handler));
    }

    /// IRETQ to `target` at CPL 3 with `rflags`, on a fresh stack: PUSH four times, LEA, PUSH, IRETQ.
    /// Changes RAX.
    pub(crate) fn enter_user(&mut self, target: CodeLabel, rflags: i32) -> Result<(), IcedError> {
        self.push(USER_SS)?;
        self.push(USER_STACK as i32)?;
        self.push(rflags)?;
        self.push(USER_CS)?;
        self.lea(rax, ptr(target))?;
        self.push(rax)?;
        self.iretq()
    }

    /// The finished image.
    pub(crate) fn finish(mut self) -> Result<Image, IcedError> {
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let code = self.assembler.assemble_options(CODE, options)?;
        let mut bytes = stub()?;
        put(&mut bytes, PML4, &page_tables());
        put(&mut bytes, GDT, &quads(&SEGMENTS));
        let limit = 8 * SEGMENTS.len() as u16 - 1;
        put(&mut bytes, GDT_POINTER, &limit.to_le_bytes());
        put(&mut bytes, GDT_POINTER + 2, &GDT.to_le_bytes());
        put(&mut bytes, IDT_POINTER, &0xFFF_u16.to_le_bytes());
        put(&mut bytes, IDT_POINTER + 2, &IDT.to_le_bytes());
        put(&mut bytes, TSS + RSP0, &STACK.to_le_bytes());
        for (vector, handler) in self.gates {
            let offset = code.label_ip(&handler)?;
            let gate = offset & 0xFFFF
                | u64::from(KERNEL_CS) << 16
                | INTERRUPT_GATE
                | (offset >> 16 & 0xFFFF) << 48;
            put(&mut bytes, IDT + 16 * u64::from(vector), &gate.to_le_bytes());
        }
        put(&mut bytes, CODE, &code.inner.code_buffer);
        Ok(Image { bytes, load_address: LOAD_ADDRESS, symbols: Vec::new() })
    }
}

/// 32-bit protected mode to 64-bit mode (APM volume 2, section 14.6.1).
fn stub() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(32)?;
    a.lgdt(fword_ptr(GDT_POINTER as u32))?;
    a.lidt(fword_ptr(IDT_POINTER as u32))?;
    a.mov(eax, CR4)?;
    a.mov(cr4, eax)?;
    a.mov(eax, PML4 as u32)?;
    a.mov(cr3, eax)?;
    a.mov(ecx, EFER)?;
    a.mov(eax, EFER_VALUE)?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    a.mov(eax, CR0)?;
    a.mov(cr0, eax)?;
    a.jmp_far(KERNEL_CS, CODE as u32)?;
    a.assemble(LOAD_ADDRESS)
}

/// Writes `content` at guest-physical `address`, growing the image with zeros.
fn put(image: &mut Vec<u8>, address: u64, content: &[u8]) {
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

/// PML4, page-directory pointers and four page directories: 4 GiB one to one.
fn page_tables() -> Vec<u8> {
    /// Present, writable, open to CPL 3.
    const OPEN: u64 = 7;
    const LARGE: u64 = 1 << 7;
    let mut tables = vec![0; 6 * 512];
    tables[0] = PDPT | OPEN;
    for gib in 0..4 {
        tables[512 + gib as usize] = (DIRECTORIES + (gib << 12)) | OPEN;
    }
    for page in 0..4 * 512 {
        tables[1024 + page as usize] = page << 21 | LARGE | OPEN;
    }
    quads(&tables)
}

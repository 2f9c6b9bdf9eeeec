//! Bare-metal 64-bit programs, assembled at run time.
//!
//! The image is loaded at 1 MiB and starts in 32-bit protected mode with flat segments. Its stub
//! enters 64-bit mode with the first 4 GiB mapped one to one (2 MiB pages, open to CPL 3), its own
//! GDT, TSS and IDT, and the local APIC enabled, and then runs what the caller assembled.
//!
//! ```text
//! 10_0000h  stub           10_7000h  GDT      10_8000h  IDT
//! 10_1000h  page tables    10_7100h  TSS      10_9000h  data of the program
//! 10_A000h  stacks, one page each             11_0000h  code, then constants
//! ```

use std::ops::{Deref, DerefMut};

use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, ax, byte_ptr, cr0, cr3, cr4, ds, dword_ptr, eax, ecx, edi, edx, es,
    fs, fword_ptr, gs, rax, rdi, rsp, ss, tbyte_ptr,
};
use iced_x86::{BlockEncoderOptions, IcedError};

/// Where the image is loaded and where its first byte runs.
pub const LOAD_ADDRESS: u64 = 0x10_0000;
/// One page for the program's variables, zero at the start.
pub const DATA: u64 = LOAD_ADDRESS + 0x9000;
/// Top of the stack that the program starts on (CPL 0).
pub const STACK: u64 = LOAD_ADDRESS + 0xF000;
/// Top of a stack for code at CPL 3.
pub const USER_STACK: u64 = LOAD_ADDRESS + 0xE000;
/// Top of the stack that an interrupt from CPL 3 switches to: RSP0 of the TSS.
pub const INTERRUPT_STACK: u64 = LOAD_ADDRESS + 0xD000;
/// Where the code begins.
pub const CODE: u64 = LOAD_ADDRESS + 0x1_0000;

/// Code segment of CPL 0.
pub const KERNEL_CS: u16 = 0x08;
/// Data segment of CPL 0.
pub const KERNEL_SS: u16 = 0x10;
/// Data segment of CPL 3, with its RPL.
pub const USER_SS: u16 = 0x23;
/// Code segment of CPL 3, with its RPL.
pub const USER_CS: u16 = 0x2B;
const TASK: u16 = 0x30;

/// Register page of the local APIC.
pub const LAPIC: u32 = 0xFEE0_0000;
/// Spurious-interrupt vector register: bit 8 enables the local APIC (APM volume 2, 16.4.7).
const LAPIC_SVR: i32 = 0xF0;
const SPURIOUS_VECTOR: u32 = 0xFF;

const PML4: u64 = LOAD_ADDRESS + 0x1000;
const PDPT: u64 = LOAD_ADDRESS + 0x2000;
const DIRECTORIES: u64 = LOAD_ADDRESS + 0x3000;
const GDT: u64 = LOAD_ADDRESS + 0x7000;
const TSS: u64 = LOAD_ADDRESS + 0x7100;
/// Operands of LGDT and LIDT.
const GDT_POINTER: u64 = LOAD_ADDRESS + 0x7200;
const IDT_POINTER: u64 = LOAD_ADDRESS + 0x7210;
const IDT: u64 = LOAD_ADDRESS + 0x8000;
/// Tops of the stacks of the interrupt stack table, entries 1 and 2.
const IST: [u64; 2] = [LOAD_ADDRESS + 0xB000, LOAD_ADDRESS + 0xC000];

const TSS_LIMIT: u64 = 0x67;
/// Descriptors (APM volume 2, sections 4.7 and 4.8), in the order that SYSRET expects of the last
/// three: 32-bit code, data and 64-bit code of CPL 3.
const SEGMENTS: [u64; 6] = [
    0,
    0x00AF_9B00_0000_FFFF, // 64-bit code, DPL 0
    0x00CF_9300_0000_FFFF, // data, DPL 0
    0x00CF_FB00_0000_FFFF, // 32-bit code, DPL 3
    0x00CF_F300_0000_FFFF, // data, DPL 3
    0x00AF_FB00_0000_FFFF, // 64-bit code, DPL 3
];

/// PAE, PCE, OSFXSR, OSXMMEXCPT. RDPMC is open to CPL 3 until the program clears CR4.PCE.
const CR4: u32 = 1 << 5 | 1 << 8 | 1 << 9 | 1 << 10;
/// PE, MP, ET, NE, PG.
const CR0: u32 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 31;
const EFER: u32 = 0xC000_0080;
/// SCE, LME.
const EFER_VALUE: u32 = 1 | 1 << 8;

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

struct Gate {
    vector: u8,
    handler: CodeLabel,
    /// Entry of the interrupt stack table, 0 for none.
    ist: u8,
    /// Highest CPL from which INT n may use it.
    dpl: u8,
}

/// A program being assembled. It is the assembler too: every instruction is a method.
pub struct Program {
    assembler: CodeAssembler,
    gates: Vec<Gate>,
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
    /// CPL 0 with interrupts disabled, on [`STACK`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn new() -> Result<Self, IcedError> {
        let mut a = CodeAssembler::new(64)?;
        a.mov(eax, u32::from(KERNEL_SS))?;
        a.mov(ds, eax)?;
        a.mov(es, eax)?;
        a.mov(ss, eax)?;
        a.mov(fs, eax)?;
        a.mov(gs, eax)?;
        a.mov(rsp, STACK)?;
        a.lidt(tbyte_ptr(IDT_POINTER))?;
        a.mov(eax, u32::from(TASK))?;
        a.ltr(ax)?;
        a.fninit()?;
        let mut program =
            Self { assembler: a, gates: Vec::new(), symbols: Vec::new(), constants: Vec::new() };
        program.write_lapic(LAPIC_SVR, 1 << 8 | SPURIOUS_VECTOR)?;
        Ok(program)
    }

    /// Puts `label` here. Several labels may be at one place.
    ///
    /// # Errors
    /// If the label is somewhere already.
    pub fn place(&mut self, label: &mut CodeLabel) -> Result<(), IcedError> {
        self.set_label(label)?;
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

    /// Sends `vector` to `handler` through an interrupt gate: stack `ist` of the interrupt stack
    /// table (1 or 2; 0 for none), callable by INT n up to CPL `dpl`.
    pub fn gate(&mut self, vector: u8, handler: CodeLabel, ist: u8, dpl: u8) {
        self.gates.push(Gate { vector, handler, ist, dpl });
    }

    /// WRMSR of `value` to `index`. Changes RAX, RCX, RDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn write_msr(&mut self, index: u32, value: u64) -> Result<(), IcedError> {
        self.mov(ecx, index)?;
        self.mov(eax, value as u32)?;
        self.mov(edx, (value >> 32) as u32)?;
        self.wrmsr()
    }

    /// Writes a register of the local APIC. Changes RDI.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn write_lapic(&mut self, offset: i32, value: u32) -> Result<(), IcedError> {
        self.mov(edi, LAPIC)?;
        self.mov(dword_ptr(rdi + offset), value)
    }

    /// IRETQ to `target` at CPL 3, on [`USER_STACK`], with `rflags`. Changes RAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn enter_user(&mut self, target: CodeLabel, rflags: i32) -> Result<(), IcedError> {
        self.push(i32::from(USER_SS))?;
        self.mov(rax, USER_STACK)?;
        self.push(rax)?;
        self.push(rflags)?;
        self.push(i32::from(USER_CS))?;
        self.lea(rax, byte_ptr(target))?;
        self.push(rax)?;
        self.iretq()
    }

    /// Constant bytes, placed behind the code.
    pub fn constant(&mut self, bytes: &[u8]) -> CodeLabel {
        let label = self.create_label();
        self.constants.push((label, bytes.to_vec()));
        label
    }

    /// Assembles everything.
    ///
    /// # Errors
    /// If an instruction cannot be encoded or a label has no place.
    pub fn finish(mut self) -> Result<Image, IcedError> {
        for (mut label, bytes) in std::mem::take(&mut self.constants) {
            self.assembler.set_label(&mut label)?;
            self.assembler.db(&bytes)?;
        }
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let code = self.assembler.assemble_options(CODE, options)?;

        let mut bytes = stub()?;
        put(&mut bytes, PML4, &page_tables());
        put(&mut bytes, GDT, &quads(&SEGMENTS));
        put(&mut bytes, GDT + u64::from(TASK), &quads(&task_descriptor()));
        put(&mut bytes, TSS, &task_state());
        put(&mut bytes, GDT_POINTER, &pointer(GDT, u64::from(TASK) + 15));
        put(&mut bytes, IDT_POINTER, &pointer(IDT, 0xFFF));
        for gate in &self.gates {
            let descriptor = gate_descriptor(gate, code.label_ip(&gate.handler)?);
            put(&mut bytes, IDT + 16 * u64::from(gate.vector), &quads(&descriptor));
        }
        put(&mut bytes, CODE, &code.inner.code_buffer);
        let symbols = self
            .symbols
            .into_iter()
            .map(|(name, label)| Ok((name, code.label_ip(&label)?)))
            .collect::<Result<_, IcedError>>()?;
        Ok(Image { bytes, load_address: LOAD_ADDRESS, symbols })
    }
}

/// 32-bit protected mode to 64-bit mode (APM volume 2, section 14.6.1).
fn stub() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(32)?;
    a.lgdt(fword_ptr(GDT_POINTER as u32))?;
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

/// Operand of LGDT and LIDT: limit, then base.
fn pointer(base: u64, limit: u64) -> Vec<u8> {
    [&(limit as u16).to_le_bytes()[..], &base.to_le_bytes()[..]].concat()
}

/// PML4, page-directory pointers and four page directories: 4 GiB one to one.
fn page_tables() -> Vec<u8> {
    const PRESENT_WRITE_USER: u64 = 7;
    const LARGE: u64 = 1 << 7;
    let mut tables = vec![0; 6 * 512];
    tables[0] = PDPT | PRESENT_WRITE_USER;
    for gib in 0..4 {
        tables[512 + gib as usize] = (DIRECTORIES + (gib << 12)) | PRESENT_WRITE_USER;
    }
    for page in 0..4 * 512 {
        tables[1024 + page as usize] = page << 21 | LARGE | PRESENT_WRITE_USER;
    }
    quads(&tables)
}

/// Available 64-bit TSS.
fn task_descriptor() -> [u64; 2] {
    let low = TSS_LIMIT | (TSS & 0xFF_FFFF) << 16 | 0x89 << 40 | (TSS >> 24 & 0xFF) << 56;
    [low, TSS >> 32]
}

/// The 64-bit TSS (APM volume 2, section 12.2.5): RSP0 at 4, IST1 and IST2 from 24h on, no I/O
/// permission bitmap.
fn task_state() -> Vec<u8> {
    let mut state = vec![0; TSS_LIMIT as usize + 1];
    state[4..12].copy_from_slice(&INTERRUPT_STACK.to_le_bytes());
    state[0x24..0x34].copy_from_slice(&quads(&IST));
    state[0x66..0x68].copy_from_slice(&(TSS_LIMIT as u16 + 1).to_le_bytes());
    state
}

/// 64-bit interrupt gate (APM volume 2, section 4.8.4).
fn gate_descriptor(gate: &Gate, handler: u64) -> [u64; 2] {
    let kind = 0x8E | u64::from(gate.dpl & 3) << 5;
    let low = handler & 0xFFFF
        | u64::from(KERNEL_CS) << 16
        | u64::from(gate.ist & 7) << 32
        | kind << 40
        | (handler >> 16 & 0xFFFF) << 48;
    [low, handler >> 32]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quad(image: &Image, address: u64) -> u64 {
        let at = (address - image.load_address) as usize;
        u64::from_le_bytes(image.bytes[at..at + 8].try_into().unwrap())
    }

    /// APM volume 2, figures 4-22 and 4-24: the fields of the TSS descriptor and of a gate.
    #[test]
    fn system_descriptors() {
        let mut p = Program::new().unwrap();
        let entry = p.mark("entry").unwrap();
        p.nop().unwrap();
        p.gate(0x80, entry, 2, 3);
        let image = p.finish().unwrap();

        // TSS at 10_7100h: base 23:0 from bit 16 on, limit 67h, present, type 9.
        assert_eq!(quad(&image, 0x10_7030), 0x0000_8910_7100_0067);
        assert_eq!(quad(&image, 0x10_7038), 0);
        // Code begins at 11_0000h. Offset 15:0, selector 8, IST 2, present DPL 3 type Eh,
        // offset 31:16 = 11h.
        let offset = image.symbol("entry").unwrap();
        assert!(offset > 0x11_0000 && offset < 0x11_0100);
        assert_eq!(quad(&image, 0x10_8800), 0x0011_EE02_0008_0000 | (offset & 0xFFFF));
        assert_eq!(quad(&image, 0x10_8808), 0);
        // A vector without a handler is not present.
        assert_eq!(quad(&image, 0x10_8810), 0);
        // RSP0, IST1, IST2 in the TSS.
        assert_eq!(quad(&image, 0x10_7104), 0x10_D000);
        assert_eq!(quad(&image, 0x10_7124), 0x10_B000);
        assert_eq!(quad(&image, 0x10_712C), 0x10_C000);
    }

    /// APM volume 2, section 5.3.3: 4 GiB one to one in 2 MiB pages, open to CPL 3.
    #[test]
    fn page_tables_map_one_to_one() {
        let image = Program::new().unwrap().finish().unwrap();
        for address in [0u64, 0x1F_FFFF, 0x20_0000, 0x7654_3210, 0xFEE0_0340, 0xFFFF_FFFF] {
            let pml4e = quad(&image, 0x10_1000 + 8 * (address >> 39));
            let pdpte = quad(&image, (pml4e & !0xFFF) + 8 * (address >> 30 & 511));
            let pde = quad(&image, (pdpte & !0xFFF) + 8 * (address >> 21 & 511));
            assert_eq!((pml4e & 0xFFF, pdpte & 0xFFF, pde & 0xFFF), (7, 7, 0x87));
            assert_eq!((pde & !0xFFF) | (address & 0x1F_FFFF), address);
        }
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

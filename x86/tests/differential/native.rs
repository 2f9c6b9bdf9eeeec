//! A case on the host's processor.
//!
//! The stub is written into a page of its own and called. A fault of the tested instruction arrives
//! as a signal, whose handler notes the vector and resumes at the stub's way out.

#![allow(unsafe_code, reason = "runs generated code; each block says why it may")]

use iced_x86::code_asm::{AsmRegister64, CodeAssembler, dword_ptr, gpr64::*, ptr, qword_ptr};

use crate::state::{CODE, Case, DATA, DATA_LEN, FRAME, Outcome, frame};

/// Order of the general registers in the frame: as in the encoding.
pub(crate) const ORDER: [AsmRegister64; 16] =
    [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];

/// Offset of the tested instruction in the stub and of the way out after a fault.
pub(crate) struct Stub {
    pub(crate) bytes: Vec<u8>,
    pub(crate) slot: usize,
    pub(crate) fault: usize,
}

/// Room for the tested instruction; the rest of it is NOPs.
pub(crate) const SLOT: usize = 15;

/// The code around the tested instruction.
pub(crate) fn stub() -> Stub {
    let at = |offset: usize| FRAME + offset as u64;
    let mut a = CodeAssembler::new(64).unwrap();
    for r in [rbx, rbp, r12, r13, r14, r15] {
        a.push(r).unwrap();
    }
    a.mov(qword_ptr(at(frame::RSP_HOST)), rsp).unwrap();
    a.fxsave64(ptr(at(frame::FX_HOST))).unwrap();
    a.fxrstor64(ptr(at(frame::FX_IN))).unwrap();
    a.push(qword_ptr(at(frame::REGS_IN + 16 * 8))).unwrap();
    a.popfq().unwrap();
    for (n, r) in ORDER.into_iter().enumerate() {
        a.mov(r, qword_ptr(at(frame::REGS_IN + 8 * n))).unwrap();
    }
    let head = a.assemble(CODE).unwrap();
    let slot = head.len();
    let mut a = CodeAssembler::new(64).unwrap();
    for (n, r) in ORDER.into_iter().enumerate() {
        a.mov(qword_ptr(at(frame::REGS_OUT + 8 * n)), r).unwrap();
    }
    a.mov(rsp, qword_ptr(at(frame::RSP_HOST))).unwrap();
    a.pushfq().unwrap();
    a.pop(qword_ptr(at(frame::REGS_OUT + 16 * 8))).unwrap();
    a.fxsave64(ptr(at(frame::FX_OUT))).unwrap();
    let mut out = a.create_label();
    a.set_label(&mut out).unwrap();
    a.nop().unwrap();
    a.mov(rsp, qword_ptr(at(frame::RSP_HOST))).unwrap();
    a.fxrstor64(ptr(at(frame::FX_HOST))).unwrap();
    a.cld().unwrap();
    for r in [r15, r14, r13, r12, rbp, rbx] {
        a.pop(r).unwrap();
    }
    a.ret().unwrap();
    let start = CODE + (slot + SLOT) as u64;
    let result = a
        .assemble_options(start, iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)
        .unwrap();
    let fault = slot + SLOT + result.label_ip(&out).unwrap() as usize - start as usize;
    let mut bytes = head;
    bytes.resize(slot + SLOT, 0x90);
    bytes.extend_from_slice(&result.inner.code_buffer);
    let _ = dword_ptr(0u64);
    Stub { bytes, slot, fault }
}

pub(crate) struct Native {
    stub: Stub,
}

static FAULT_EXIT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Notes the exception's vector and goes to the stub's way out.
extern "C" fn on_signal(signal: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let rip = registers[libc::REG_RIP as usize] as u64;
    if !(CODE..CODE + 4096).contains(&rip) {
        // Not the stub's: let it kill the test as it should.
        // SAFETY: resets this signal to its default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    let vector = registers[libc::REG_TRAPNO as usize] as u8;
    // SAFETY: the frame page is mapped for the whole test.
    unsafe { (FRAME as *mut u8).add(frame::FAULT).write_volatile(vector + 1) };
    let exit = FAULT_EXIT.load(std::sync::atomic::Ordering::Relaxed);
    registers[libc::REG_RIP as usize] = exit as i64;
}

fn map(address: u64, len: usize) {
    // SAFETY: a fixed range below 2 GiB that nothing else uses in a position-independent test
    // binary; MAP_FIXED_NOREPLACE fails if that is ever wrong.
    let mapped = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            len,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(mapped as u64, address, "the differential test needs address {address:#x}");
}

impl Native {
    pub(crate) fn new() -> Self {
        map(CODE, 4096);
        map(FRAME, 4096);
        map(DATA, DATA_LEN);
        let stub = stub();
        FAULT_EXIT.store(CODE + stub.fault as u64, std::sync::atomic::Ordering::Relaxed);
        // SAFETY: a stack for the handler, because the tested code's RSP points into the data
        // page; leaked, so it outlives the test.
        unsafe {
            let stack = Box::leak(vec![0u8; 1 << 16].into_boxed_slice());
            let alternate = libc::stack_t {
                ss_sp: stack.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: stack.len(),
            };
            libc::sigaltstack(&raw const alternate, std::ptr::null_mut());
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            for signal in [libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGBUS, libc::SIGTRAP] {
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
            let code = std::slice::from_raw_parts_mut(CODE as *mut u8, stub.bytes.len());
            code.copy_from_slice(&stub.bytes);
        }
        Self { stub }
    }

    pub(crate) fn run(&mut self, case: &Case) -> Outcome {
        // SAFETY: the pages are mapped and this thread alone uses them; the stub keeps the calling
        // convention on both ways out.
        unsafe {
            let slot = (CODE as *mut u8).add(self.stub.slot);
            for n in 0..SLOT {
                slot.add(n).write_volatile(case.bytes.get(n).copied().unwrap_or(0x90));
            }
            let page = std::slice::from_raw_parts_mut(FRAME as *mut u8, 4096);
            page[frame::FX_IN..][..512].copy_from_slice(&case.fx);
            for (n, reg) in case.regs.iter().enumerate() {
                page[frame::REGS_IN + 8 * n..][..8].copy_from_slice(&reg.to_le_bytes());
            }
            page[frame::FAULT] = 0;
            let data = std::slice::from_raw_parts_mut(DATA as *mut u8, DATA_LEN);
            data.copy_from_slice(&case.data[..]);
            let entry: extern "C" fn() = std::mem::transmute(CODE as *const ());
            entry();
            outcome(
                std::slice::from_raw_parts(FRAME as *const u8, 4096),
                std::slice::from_raw_parts(DATA as *const u8, DATA_LEN),
            )
        }
    }
}

/// Reads an outcome from the frame and the data.
pub(crate) fn outcome(page: &[u8], data: &[u8]) -> Outcome {
    let mut regs = [0; 17];
    for (n, reg) in regs.iter_mut().enumerate() {
        let bytes = page[frame::REGS_OUT + 8 * n..][..8].try_into().unwrap();
        *reg = u64::from_le_bytes(bytes);
    }
    Outcome {
        regs,
        fx: page[frame::FX_OUT..][..512].try_into().unwrap(),
        data: Box::new(data.try_into().unwrap()),
        fault: page[frame::FAULT],
    }
}

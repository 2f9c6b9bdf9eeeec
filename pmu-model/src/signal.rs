//! The signal vocabulary: what an engine can tell the PMU.
//!
//! A *signal* is a micro-architectural fact; an *event* is what one personality lets a guest
//! select. Engines only fire signals; the event tables say which select counts which signals.
//! Signals that specialise another (a near return is a branch) are fired beside it, so an event
//! never has to add up special cases to get the whole.

/// One row a signal: doc, variant, name, and whether the CPU core alone can fire it
/// (`architectural`) or a micro-architecture model has to (`modelled`).
macro_rules! signals {
    ($($(#[$doc:meta])* $variant:ident: $name:literal, $kind:ident;)*) => {
        /// A micro-architectural fact that can be counted. Closed: every event of every
        /// personality is a sum of these.
        ///
        /// Each variant's text says what one occurrence is. Values are dense from 0, so that
        /// tables can be indexed by them; they are not stable between versions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
        #[repr(u16)]
        pub enum Signal {
            $($(#[$doc])* $variant,)*
        }

        impl Signal {
            /// Every signal, in the order of the enumeration.
            pub const ALL: &'static [Signal] = &[$(Signal::$variant),*];

            /// The signal's name in lower case, words joined by underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Signal::$variant => $name,)*
                }
            }

            /// Whether the CPU core fires this signal in this version. The others wait for the
            /// micro-architecture model; an event that needs one of them is `pending`.
            pub const fn is_architectural(self) -> bool {
                match self {
                    $(Signal::$variant => fired_by::$kind,)*
                }
            }
        }
    };
}

/// Who fires a signal, in the words of the table.
#[allow(non_upper_case_globals)]
mod fired_by {
    pub(super) const architectural: bool = true;
    pub(super) const modelled: bool = false;
}

signals! {
    /// One instruction retired: an architectural instruction completed and its results are
    /// visible. A REP string instruction is one, however often it iterates; exceptions and
    /// interrupts are not included (they fire signals of their own).
    InsnRetired: "insn_retired", architectural;
    /// One CLFLUSH instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredClflush: "insn_retired_clflush", architectural;
    /// One CPUID instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredCpuid: "insn_retired_cpuid", architectural;
    /// One x87 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredX87: "insn_retired_x87", architectural;
    /// One MMX or 3DNow! instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredMmx: "insn_retired_mmx", architectural;
    /// One packed SSE, SSE2 or SSE3 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredSsePacked: "insn_retired_sse_packed", architectural;
    /// One scalar SSE, SSE2 or SSE3 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredSseScalar: "insn_retired_sse_scalar", architectural;
    /// One exception (fault or trap) delivered. INT n is not one: it is a far transfer
    /// ([`Signal::BranchRetiredFar`]).
    ExceptionTaken: "exception_taken", architectural;
    /// One hardware interrupt taken, NMI included. INT n is not one.
    InterruptTaken: "interrupt_taken", architectural;
    /// One branch instruction retired, of any kind: conditional (taken or not), jump, call,
    /// return, and every far transfer. Exceptions and interrupts are not included.
    BranchRetired: "branch_retired", architectural;
    /// One branch instruction retired that changed the flow: a taken conditional, or any
    /// unconditional near or far transfer. Fired beside [`Signal::BranchRetired`].
    BranchTaken: "branch_taken", architectural;
    /// One near return retired. Fired beside [`Signal::BranchRetired`].
    BranchRetiredRet: "branch_retired_ret", architectural;
    /// One far transfer instruction retired: far call, far jump, far return, IRET, SYSCALL,
    /// SYSRET, SYSENTER, SYSEXIT, INT n. Fired beside [`Signal::BranchRetired`].
    BranchRetiredFar: "branch_retired_far", architectural;
    /// One load of ES.
    SegLoadEs: "seg_load_es", architectural;
    /// One load of CS.
    SegLoadCs: "seg_load_cs", architectural;
    /// One load of SS.
    SegLoadSs: "seg_load_ss", architectural;
    /// One load of DS.
    SegLoadDs: "seg_load_ds", architectural;
    /// One load of FS.
    SegLoadFs: "seg_load_fs", architectural;
    /// One load of GS.
    SegLoadGs: "seg_load_gs", architectural;
    /// One data access that crosses the boundary of the personality (eight bytes on K8).
    Misaligned: "misaligned", architectural;
    /// One locked instruction executed: a LOCK prefix, or XCHG with memory.
    LockedOp: "locked_op", architectural;
    /// One match of breakpoint register DR0 for the type set in DR7, whether or not the
    /// breakpoint is enabled.
    DebugMatch0: "debug_match0", architectural;
    /// One match of breakpoint register DR1, as for DR0.
    DebugMatch1: "debug_match1", architectural;
    /// One match of breakpoint register DR2, as for DR0.
    DebugMatch2: "debug_match2", architectural;
    /// One match of breakpoint register DR3, as for DR0.
    DebugMatch3: "debug_match3", architectural;
    /// One processor clock in which the processor was not halted.
    CyclesUnhalted: "cycles_unhalted", architectural;
    /// One unhalted clock with EFLAGS.IF = 0.
    CyclesIntMasked: "cycles_int_masked", architectural;
    /// One unhalted clock with EFLAGS.IF = 0 and an interrupt pending. Fired beside
    /// [`Signal::CyclesIntMasked`].
    CyclesIntMaskedPending: "cycles_int_masked_pending", architectural;
    /// One floating-point operation that returns its flags to the integer side: FCOMI, FCOMIP,
    /// FUCOMI, FUCOMIP, COMISS, COMISD, UCOMISS, UCOMISD.
    FpuOpFastFlag: "fpu_op_fast_flag", architectural;
    /// One PREFETCH, PREFETCHT0, PREFETCHT1 or PREFETCHT2 instruction sent on by the decoder.
    SoftPrefetchLoad: "soft_prefetch_load", architectural;
    /// One PREFETCHW instruction sent on by the decoder.
    SoftPrefetchStore: "soft_prefetch_store", architectural;
    /// One PREFETCHNTA instruction sent on by the decoder.
    SoftPrefetchNta: "soft_prefetch_nta", architectural;
    /// One data read by an instruction: each access is one, in strings and on the stack too. Page
    /// walks and descriptor fetches are not included.
    Load: "load", architectural;
    /// One data write by an instruction, as for [`Signal::Load`], or one push of an interrupt or an
    /// exception.
    Store: "store", architectural;
    /// One data read by an MMX instruction. Fired beside [`Signal::Load`].
    LoadMmx: "load_mmx", architectural;
    /// One data write by an MMX instruction. Fired beside [`Signal::Store`].
    StoreMmx: "store_mmx", architectural;
    /// One misaligned data access by an MMX instruction. Fired beside [`Signal::Misaligned`].
    MisalignedMmx: "misaligned_mmx", architectural;
    /// One read or write cycle of port space.
    IoAccess: "io_access", architectural;
    /// One computational x87 operation retired.
    X87Flop: "x87_flop", architectural;
    /// One EMMS instruction retired. Fired beside [`Signal::InsnRetiredMmx`].
    MmxEmms: "mmx_emms", architectural;
    /// One change from x87 to MMX use of the register file.
    MmxFpToMmx: "mmx_fp_to_mmx", architectural;
    /// One change from MMX to x87 use of the register file.
    MmxMmxToFp: "mmx_mmx_to_fp", architectural;
    /// One MMX instruction of a saturating form retired, whether or not a result was clamped.
    MmxSaturating: "mmx_saturating", architectural;
    /// One saturating MMX instruction retired that clamped at least one element. Fired beside
    /// [`Signal::MmxSaturating`].
    MmxSaturated: "mmx_saturated", architectural;
    /// One packed multiply of MMX retired.
    MmxPackedMultiply: "mmx_packed_multiply", architectural;
    /// One packed shift of MMX retired.
    MmxPackedShift: "mmx_packed_shift", architectural;
    /// One pack instruction of MMX retired.
    MmxPack: "mmx_pack", architectural;
    /// One unpack instruction of MMX retired.
    MmxUnpack: "mmx_unpack", architectural;
    /// One packed logical instruction of MMX retired.
    MmxPackedLogical: "mmx_packed_logical", architectural;
    /// One packed arithmetic instruction of MMX retired that is not a multiply.
    MmxPackedArithmetic: "mmx_packed_arithmetic", architectural;
    /// One packed arithmetic SSE instruction retired. Fired beside
    /// [`Signal::InsnRetiredSsePacked`].
    SsePackedArith: "sse_packed_arith", architectural;
    /// One scalar arithmetic SSE instruction retired. Fired beside
    /// [`Signal::InsnRetiredSseScalar`].
    SseScalarArith: "sse_scalar_arith", architectural;
    /// One operation without a memory operand sent to the FPU's add pipe.
    FpuOpAdd: "fpu_op_add", modelled;
    /// One operation without a memory operand sent to the FPU's multiply pipe.
    FpuOpMul: "fpu_op_mul", modelled;
    /// One operation without a memory operand sent to the FPU's store pipe.
    FpuOpStore: "fpu_op_store", modelled;
    /// One operation with a load sent to the FPU's add pipe.
    FpuOpAddLoad: "fpu_op_add_load", modelled;
    /// One operation with a load sent to the FPU's multiply pipe.
    FpuOpMulLoad: "fpu_op_mul_load", modelled;
    /// One operation with a load sent to the FPU's store pipe.
    FpuOpStoreLoad: "fpu_op_store_load", modelled;
    /// One x87 reclass microfault.
    FpAssistX87Reclass: "fp_assist_x87_reclass", modelled;
    /// One SSE retype microfault.
    FpAssistSseRetype: "fp_assist_sse_retype", modelled;
    /// One SSE reclass microfault.
    FpAssistSseReclass: "fp_assist_sse_reclass", modelled;
    /// One SSE or x87 microtrap.
    FpAssistMicrotrap: "fp_assist_microtrap", modelled;
    /// One micro-operation retired, from any activity.
    UopRetired: "uop_retired", modelled;
    /// One fast-path double instruction retired with its low half in slot 0.
    UopFastpathDouble0: "uop_fastpath_double0", modelled;
    /// One fast-path double instruction retired with its low half in slot 1.
    UopFastpathDouble1: "uop_fastpath_double1", modelled;
    /// One fast-path double instruction retired with its low half in slot 2.
    UopFastpathDouble2: "uop_fastpath_double2", modelled;
    /// One near branch retired whose direction or target was predicted wrongly.
    BranchMispredicted: "branch_mispredicted", modelled;
    /// One taken near branch retired that was predicted wrongly.
    BranchMispredictedTaken: "branch_mispredicted_taken", modelled;
    /// One near return retired whose target was predicted wrongly.
    BranchMispredictedRet: "branch_mispredicted_ret", modelled;
    /// One indirect branch retired whose target was predicted wrongly.
    BranchMispredictedIndirect: "branch_mispredicted_indirect", modelled;
    /// One near return that took its target from the return stack, rightly or not.
    RasPredicted: "ras_predicted", modelled;
    /// One near call that pushed the return stack past its depth.
    RasOverflow: "ras_overflow", modelled;
    /// One pipeline restart because a store hit instructions already fetched.
    FlushSmc: "flush_smc", modelled;
    /// One pipeline restart because an invalidating probe hit a load that had run early.
    FlushProbeLoad: "flush_probe_load", modelled;
    /// One pipeline restart because an invalidating probe hit the running instruction stream.
    FlushProbeIfetch: "flush_probe_ifetch", modelled;
    /// One pipeline restart by a microcode assist or a write to the active code.
    FlushResync: "flush_resync", modelled;
    /// One clock that a locked operation spent in its speculative phase.
    LockedSpeculativeCycles: "locked_speculative_cycles", modelled;
    /// One clock that a locked operation spent in its non-speculative phase, misses included.
    LockedNonSpeculativeCycles: "locked_non_speculative_cycles", modelled;
    /// One request to uncacheable (UC) memory.
    UncachedAccess: "uncached_access", modelled;
    /// One flush of a write-combining buffer filled by stores to WC memory.
    WcFlush: "wc_flush", modelled;
    /// One flush of a write-combining buffer filled by streaming stores.
    WcFlushStreaming: "wc_flush_streaming", modelled;
    /// One data-cache access of up to eight bytes, by a load or a store.
    L1dAccess: "l1d_access", modelled;
    /// One data-cache miss: the first for its line, and every streaming store.
    L1dMiss: "l1d_miss", modelled;
    /// One data-cache miss by a locked instruction. Fired beside [`Signal::L1dMiss`].
    L1dMissLocked: "l1d_miss_locked", modelled;
    /// One line refilled into the data cache from the L2 in state Shared.
    L1dRefillL2Shared: "l1d_refill_l2_shared", modelled;
    /// One line refilled into the data cache from the L2 in state Exclusive.
    L1dRefillL2Exclusive: "l1d_refill_l2_exclusive", modelled;
    /// One line refilled into the data cache from the L2 in state Owned.
    L1dRefillL2Owned: "l1d_refill_l2_owned", modelled;
    /// One line refilled into the data cache from the L2 in state Modified.
    L1dRefillL2Modified: "l1d_refill_l2_modified", modelled;
    /// One line refilled into the data cache from memory or another cache in state Invalid.
    L1dRefillSystemInvalid: "l1d_refill_system_invalid", modelled;
    /// One line refilled into the data cache from memory or another cache in state Shared.
    L1dRefillSystemShared: "l1d_refill_system_shared", modelled;
    /// One line refilled into the data cache from memory or another cache in state Exclusive.
    L1dRefillSystemExclusive: "l1d_refill_system_exclusive", modelled;
    /// One line refilled into the data cache from memory or another cache in state Owned.
    L1dRefillSystemOwned: "l1d_refill_system_owned", modelled;
    /// One line refilled into the data cache from memory or another cache in state Modified.
    L1dRefillSystemModified: "l1d_refill_system_modified", modelled;
    /// One data-cache line displaced by a refill in state Invalid (a probe had taken it).
    L1dEvictInvalid: "l1d_evict_invalid", modelled;
    /// One data-cache line displaced by a refill in state Shared.
    L1dEvictShared: "l1d_evict_shared", modelled;
    /// One data-cache line displaced by a refill in state Exclusive.
    L1dEvictExclusive: "l1d_evict_exclusive", modelled;
    /// One data-cache line displaced by a refill in state Owned.
    L1dEvictOwned: "l1d_evict_owned", modelled;
    /// One data-cache line displaced by a refill in state Modified.
    L1dEvictModified: "l1d_evict_modified", modelled;
    /// One data access that missed the first-level TLB and hit the second.
    DtlbMissL1: "dtlb_miss_l1", modelled;
    /// One data access that missed every TLB level.
    DtlbMissLast: "dtlb_miss_last", modelled;
    /// One instruction fetch that missed the first-level TLB and hit the second.
    ItlbMissL1: "itlb_miss_l1", modelled;
    /// One instruction fetch that missed every TLB level.
    ItlbMissLast: "itlb_miss_last", modelled;
    /// One read of the instruction cache, of the personality's fetch width (16 aligned bytes on
    /// K8).
    L1iFetch: "l1i_fetch", modelled;
    /// One instruction fetch that missed the instruction cache.
    L1iMiss: "l1i_miss", modelled;
    /// One line refilled into the instruction cache from the L2.
    L1iRefillL2: "l1i_refill_l2", modelled;
    /// One line refilled into the instruction cache from memory or another cache.
    L1iRefillSystem: "l1i_refill_system", modelled;
    /// One read request to the L2 for an instruction-cache fill, retries included.
    L2RequestIfetch: "l2_request_ifetch", modelled;
    /// One read request to the L2 for a data-cache fill, retries included.
    L2RequestData: "l2_request_data", modelled;
    /// One read request to the L2 for a page-table walk.
    L2RequestTlb: "l2_request_tlb", modelled;
    /// One tag snoop request to the L2.
    L2RequestSnoop: "l2_request_snoop", modelled;
    /// One request to the L2 that was cancelled.
    L2RequestCancelled: "l2_request_cancelled", modelled;
    /// One L2 miss of an instruction-cache fill.
    L2MissIfetch: "l2_miss_ifetch", modelled;
    /// One L2 miss of a data-cache fill.
    L2MissData: "l2_miss_data", modelled;
    /// One L2 miss of a page-table walk.
    L2MissTlb: "l2_miss_tlb", modelled;
    /// One line written into the L2, for any cause: a refill, an L1 victim, a page-table walk, a
    /// prefetch.
    L2Fill: "l2_fill", modelled;
    /// One dirty line written back from the L2 to the system.
    L2EvictModified: "l2_evict_modified", modelled;
    /// One prefetch attempted by the hardware data prefetcher.
    HwPrefetchAttempt: "hw_prefetch_attempt", modelled;
    /// One hardware prefetch cancelled because the line was already there. Fired beside
    /// [`Signal::HwPrefetchAttempt`].
    HwPrefetchCancelled: "hw_prefetch_cancelled", modelled;
    /// One line-sized response of the system to a refill, in state Exclusive.
    SystemReadExclusive: "system_read_exclusive", modelled;
    /// One line-sized response of the system to a refill, in state Modified.
    SystemReadModified: "system_read_modified", modelled;
    /// One line-sized response of the system to a refill, in state Shared.
    SystemReadShared: "system_read_shared", modelled;
    /// One eight-byte transfer sent to the system.
    SystemWriteQword: "system_write_qword", modelled;
    /// One clock in which the FPU retired nothing.
    StallNoFpuRetire: "stall_no_fpu_retire", modelled;
    /// One access cancelled late inside the core.
    StallLateCancel: "stall_late_cancel", modelled;
    /// One access cancelled early inside the core.
    StallEarlyCancel: "stall_early_cancel", modelled;
    /// One clock in which the second load/store buffer was full.
    StallLs2Full: "stall_ls2_full", modelled;
    /// One clock in which the instruction fetcher was stalled.
    StallIfetch: "stall_ifetch", modelled;
    /// One clock in which the decoder had nothing to dispatch.
    StallDecoderEmpty: "stall_decoder_empty", modelled;
    /// One clock in which dispatch was held for any of the causes below.
    StallDispatchAny: "stall_dispatch_any", modelled;
    /// One dispatch-stall clock waiting for a mispredicted branch to retire.
    StallBranchAbort: "stall_branch_abort", modelled;
    /// One dispatch-stall clock for a serializing operation.
    StallSerialize: "stall_serialize", modelled;
    /// One dispatch-stall clock for a segment load behind another.
    StallSegmentLoad: "stall_segment_load", modelled;
    /// One dispatch-stall clock with the reorder buffer full.
    StallRobFull: "stall_rob_full", modelled;
    /// One dispatch-stall clock with an integer reservation station full.
    StallRsFull: "stall_rs_full", modelled;
    /// One dispatch-stall clock with the floating-point scheduler full.
    StallFpuFull: "stall_fpu_full", modelled;
    /// One dispatch-stall clock with the load/store unit full.
    StallLsFull: "stall_ls_full", modelled;
    /// One dispatch-stall clock waiting for every outstanding system request.
    StallAllQuiet: "stall_all_quiet", modelled;
    /// One dispatch-stall clock waiting for a far transfer or a resync to retire.
    StallFarOrResync: "stall_far_or_resync", modelled;
    /// One DRAM access that hit the open page.
    DramPageHit: "dram_page_hit", modelled;
    /// One DRAM access that found no page open.
    DramPageMiss: "dram_page_miss", modelled;
    /// One DRAM access that found another page open.
    DramPageConflict: "dram_page_conflict", modelled;
    /// One time that a new DRAM page was wanted with the open-page table full.
    DramPageTableOverflow: "dram_page_table_overflow", modelled;
    /// One turnaround of the DRAM bus between chip selects.
    DramTurnaroundChipSelect: "dram_turnaround_chip_select", modelled;
    /// One turnaround of the DRAM bus from read to write.
    DramTurnaroundReadToWrite: "dram_turnaround_read_to_write", modelled;
    /// One turnaround of the DRAM bus from write to read.
    DramTurnaroundWriteToRead: "dram_turnaround_write_to_read", modelled;
    /// One 32-byte sized write at the northbridge.
    SizedBlockWrite32: "sized_block_write32", modelled;
    /// One 64-byte sized write at the northbridge.
    SizedBlockWrite64: "sized_block_write64", modelled;
    /// One 32-byte sized read at the northbridge.
    SizedBlockRead32: "sized_block_read32", modelled;
    /// One 64-byte sized read at the northbridge.
    SizedBlockRead64: "sized_block_read64", modelled;
    /// One request of a local processor to local memory.
    NbRequestCpuToMem: "nb_request_cpu_to_mem", modelled;
    /// One request of a local processor to local I/O.
    NbRequestCpuToIo: "nb_request_cpu_to_io", modelled;
    /// One request of local I/O to local memory.
    NbRequestIoToMem: "nb_request_io_to_mem", modelled;
    /// One request of local I/O to local I/O.
    NbRequestIoToIo: "nb_request_io_to_io", modelled;
    /// One victim block (write-back) command.
    CacheBlockVictim: "cache_block_victim", modelled;
    /// One read block command (data-cache load refill).
    CacheBlockRead: "cache_block_read", modelled;
    /// One read block shared command (instruction-cache refill).
    CacheBlockReadShared: "cache_block_read_shared", modelled;
    /// One read block modified command (data-cache store refill).
    CacheBlockReadModified: "cache_block_read_modified", modelled;
    /// One change-to-dirty command (first store to a clean line).
    CacheBlockChangeToDirty: "cache_block_change_to_dirty", modelled;
    /// One non-posted sized write of bytes (1-32 bytes).
    SizedNonPostedWriteByte: "sized_non_posted_write_byte", modelled;
    /// One non-posted sized write of doublewords (1-16).
    SizedNonPostedWriteDword: "sized_non_posted_write_dword", modelled;
    /// One posted sized write of bytes (1-32 bytes).
    SizedPostedWriteByte: "sized_posted_write_byte", modelled;
    /// One posted sized write of doublewords (1-16).
    SizedPostedWriteDword: "sized_posted_write_dword", modelled;
    /// One sized read of bytes (4 bytes).
    SizedReadByte: "sized_read_byte", modelled;
    /// One sized read of doublewords (1-16).
    SizedReadDword: "sized_read_dword", modelled;
    /// One sized read-modify-write.
    SizedReadModifyWrite: "sized_read_modify_write", modelled;
    /// One probe that missed.
    ProbeMiss: "probe_miss", modelled;
    /// One probe that hit a clean line.
    ProbeHitClean: "probe_hit_clean", modelled;
    /// One probe that hit a dirty line, without memory cancel (a sized write or change-to-dirty
    /// asked).
    ProbeHitDirtyKeep: "probe_hit_dirty_keep", modelled;
    /// One probe that hit a dirty line, with memory cancel (a DMA read or a refill asked).
    ProbeHitDirtyCancel: "probe_hit_dirty_cancel", modelled;
    /// One upstream read for display refresh.
    IoDmaDisplayRead: "io_dma_display_read", modelled;
    /// One upstream read that is not for display refresh.
    IoDmaRead: "io_dma_read", modelled;
    /// One upstream write.
    IoDmaWrite: "io_dma_write", modelled;
    /// One computational x87 operation executed, on a mispredicted path too.
    X87FlopExecuted: "x87_flop_executed", modelled;
    /// One multiply executed, integer or floating-point.
    ArithMul: "arith_mul", modelled;
    /// One divide executed, integer or floating-point.
    ArithDiv: "arith_div", modelled;
    /// One clock in which the divider was busy.
    DividerBusy: "divider_busy", modelled;
    /// One floating-point case handed to microcode.
    FpAssist: "fp_assist", modelled;
    /// One MMX micro-operation executed.
    UopMmx: "uop_mmx", modelled;
    /// One synchronising micro-operation.
    UopSync: "uop_sync", modelled;
    /// One micro-operation that brings the stack pointer up to date.
    UopEsp: "uop_esp", modelled;
    /// One fused micro-operation retired of a load with an operation.
    UopFusedLoadOp: "uop_fused_load_op", modelled;
    /// One fused micro-operation retired of a store's address and data.
    UopFusedStore: "uop_fused_store", modelled;
    /// One fused micro-operation taken apart because of a floating-point exception.
    Unfusion: "unfusion", modelled;
    /// One packed single-precision SSE instruction retired.
    SsePackedSingle: "sse_packed_single", modelled;
    /// One scalar single-precision SSE instruction retired.
    SseScalarSingle: "sse_scalar_single", modelled;
    /// One packed double-precision SSE2 instruction retired.
    SsePackedDouble: "sse_packed_double", modelled;
    /// One scalar double-precision SSE2 instruction retired.
    SseScalarDouble: "sse_scalar_double", modelled;
    /// One packed single-precision arithmetic SSE instruction retired.
    SsePackedSingleArith: "sse_packed_single_arith", modelled;
    /// One scalar single-precision arithmetic SSE instruction retired.
    SseScalarSingleArith: "sse_scalar_single_arith", modelled;
    /// One packed double-precision arithmetic SSE2 instruction retired.
    SsePackedDoubleArith: "sse_packed_double_arith", modelled;
    /// One scalar double-precision arithmetic SSE2 instruction retired.
    SseScalarDoubleArith: "sse_scalar_double_arith", modelled;
    /// One MMX instruction executed in the U pipe.
    MmxPipeU: "mmx_pipe_u", modelled;
    /// One MMX instruction executed in the V pipe.
    MmxPipeV: "mmx_pipe_v", modelled;
    /// One instruction executed in the V pipe, which is one pair.
    PairV: "pair_v", modelled;
    /// One pair of data accesses, in the U and the V pipe.
    PairVMem: "pair_v_mem", modelled;
    /// One instruction decoded, on a mispredicted path too.
    InsnDecoded: "insn_decoded", modelled;
    /// One branch instruction decoded, on a mispredicted path too.
    BranchDecoded: "branch_decoded", modelled;
    /// One branch retired that was predicted taken and was not.
    BranchMispredictedNotTaken: "branch_mispredicted_not_taken", modelled;
    /// One branch retired that hit the branch target buffer and was predicted wrongly.
    BranchMispredictedBtbHit: "branch_mispredicted_btb_hit", modelled;
    /// One branch instruction executed, on a mispredicted path too.
    BranchExecuted: "branch_executed", modelled;
    /// One branch instruction whose misprediction was found at execution.
    BranchExecutedMispredicted: "branch_executed_mispredicted", modelled;
    /// One branch instruction whose misprediction was found at decode.
    BranchExecutedMispredictedDecode: "branch_executed_mispredicted_decode", modelled;
    /// One conditional branch executed.
    BranchExecutedConditional: "branch_executed_conditional", modelled;
    /// One conditional branch executed that was predicted wrongly.
    BranchExecutedConditionalMispredicted: "branch_executed_conditional_mispredicted", modelled;
    /// One indirect branch executed.
    BranchExecutedIndirect: "branch_executed_indirect", modelled;
    /// One indirect branch executed that was predicted wrongly.
    BranchExecutedIndirectMispredicted: "branch_executed_indirect_mispredicted", modelled;
    /// One near return executed.
    BranchExecutedRet: "branch_executed_ret", modelled;
    /// One near return whose misprediction was found at execution.
    BranchExecutedRetMispredicted: "branch_executed_ret_mispredicted", modelled;
    /// One near return whose misprediction was found at decode.
    BranchExecutedRetMispredictedDecode: "branch_executed_ret_mispredicted_decode", modelled;
    /// One near call executed.
    BranchExecutedCall: "branch_executed_call", modelled;
    /// One near call executed that was predicted wrongly.
    BranchExecutedCallMispredicted: "branch_executed_call_mispredicted", modelled;
    /// One indirect call executed.
    BranchExecutedIndirectCall: "branch_executed_indirect_call", modelled;
    /// One branch for which the branch target buffer supplied a prediction.
    BtbHit: "btb_hit", modelled;
    /// One branch for which the branch target buffer had no entry.
    BtbMiss: "btb_miss", modelled;
    /// One branch that was taken, or hit the branch target buffer, or both.
    BtbHitOrTaken: "btb_hit_or_taken", modelled;
    /// One hit of the branch target buffer on what was not a branch.
    BtbFalseEntry: "btb_false_entry", modelled;
    /// One prediction of a branch where there was none.
    FrontendBogusBranch: "frontend_bogus_branch", modelled;
    /// One time that the branch calculator of the decoder put fetch on another path.
    FrontendBaclear: "frontend_baclear", modelled;
    /// One time that the pipeline was emptied, for any cause.
    PipelineFlush: "pipeline_flush", modelled;
    /// One time that the pipeline was emptied because of a wrong prediction. Fired beside
    /// [`Signal::PipelineFlush`].
    FlushMispredict: "flush_mispredict", modelled;
    /// One wrong prediction found only in the write-back stage. Fired beside
    /// [`Signal::FlushMispredict`].
    FlushMispredictWb: "flush_mispredict_wb", modelled;
    /// One bus read of memory that may not be cached.
    UncachedRead: "uncached_read", modelled;
    /// One write to memory that may not be cached.
    UncachedWrite: "uncached_write", modelled;
    /// One system request for write-through (WT) memory.
    SystemRequestWt: "system_request_wt", modelled;
    /// One system request for write-protected (WP) memory.
    SystemRequestWp: "system_request_wp", modelled;
    /// One system request for write-back (WB) memory.
    SystemRequestWb: "system_request_wb", modelled;
    /// One weakly ordered (streaming) store dispatched.
    WeakStore: "weak_store", modelled;
    /// One weakly ordered (streaming) store that missed every cache.
    WeakStoreMiss: "weak_store_miss", modelled;
    /// One prefetch instruction with the T1 hint dispatched.
    SoftPrefetchT1: "soft_prefetch_t1", modelled;
    /// One prefetch instruction with the T2 hint dispatched.
    SoftPrefetchT2: "soft_prefetch_t2", modelled;
    /// One prefetch instruction with the NTA hint that missed every cache.
    SoftPrefetchNtaMiss: "soft_prefetch_nta_miss", modelled;
    /// One prefetch instruction with the T1 hint that missed every cache.
    SoftPrefetchT1Miss: "soft_prefetch_t1_miss", modelled;
    /// One prefetch instruction with the T2 hint that missed every cache.
    SoftPrefetchT2Miss: "soft_prefetch_t2_miss", modelled;
    /// One data read that missed the data cache. Fired beside [`Signal::L1dMiss`].
    L1dMissLoad: "l1d_miss_load", modelled;
    /// One data write that missed the data cache. Fired beside [`Signal::L1dMiss`].
    L1dMissStore: "l1d_miss_store", modelled;
    /// One data read by an MMX instruction that missed the data cache. Fired beside
    /// [`Signal::L1dMissLoad`].
    L1dMissLoadMmx: "l1d_miss_load_mmx", modelled;
    /// One data write by an MMX instruction that missed the data cache. Fired beside
    /// [`Signal::L1dMissStore`].
    L1dMissStoreMmx: "l1d_miss_store_mmx", modelled;
    /// One data write that hit a line held Modified or Exclusive.
    L1dStoreHitOwned: "l1d_store_hit_owned", modelled;
    /// One line refilled into the data cache from the L2 in state Invalid.
    L1dRefillL2Invalid: "l1d_refill_l2_invalid", modelled;
    /// One dirty line that left the data cache, for any cause.
    L1dWriteback: "l1d_writeback", modelled;
    /// One pair of data accesses that collided on a bank of the data cache.
    L1dBankConflict: "l1d_bank_conflict", modelled;
    /// One line that the instruction cache made the data cache drop.
    L1iInvalidatesL1d: "l1i_invalidates_l1d", modelled;
    /// One line that the instruction cache made itself drop.
    L1iInvalidatesL1i: "l1i_invalidates_l1i", modelled;
    /// One line that the data cache made itself drop.
    L1dInvalidatesL1d: "l1d_invalidates_l1d", modelled;
    /// One line that the data cache made the instruction cache drop.
    L1dInvalidatesL1i: "l1d_invalidates_l1i", modelled;
    /// One data-cache miss outstanding in one clock.
    MissOutstandingL1d: "miss_outstanding_l1d", modelled;
    /// One cacheable read request outstanding on the bus in one clock.
    MissOutstandingBus: "miss_outstanding_bus", modelled;
    /// One page walk for data.
    PageWalkData: "page_walk_data", modelled;
    /// One page walk for code.
    PageWalkCode: "page_walk_code", modelled;
    /// One page walk for data that the second-level TLB missed too. Fired beside
    /// [`Signal::PageWalkData`].
    PageWalkDataLong: "page_walk_data_long", modelled;
    /// One page walk for code that the second-level TLB missed too. Fired beside
    /// [`Signal::PageWalkCode`].
    PageWalkCodeLong: "page_walk_code_long", modelled;
    /// One request to the L2, of any kind, that found its line Modified.
    L2RequestModified: "l2_request_modified", modelled;
    /// One request to the L2, of any kind, that found its line Exclusive.
    L2RequestExclusive: "l2_request_exclusive", modelled;
    /// One request to the L2, of any kind, that found its line Shared.
    L2RequestShared: "l2_request_shared", modelled;
    /// One request to the L2, of any kind, that found its line Invalid or absent.
    L2RequestInvalid: "l2_request_invalid", modelled;
    /// One data load at the L2 that found its line Modified.
    L2RequestLoadModified: "l2_request_load_modified", modelled;
    /// One data load at the L2 that found its line Exclusive.
    L2RequestLoadExclusive: "l2_request_load_exclusive", modelled;
    /// One data load at the L2 that found its line Shared.
    L2RequestLoadShared: "l2_request_load_shared", modelled;
    /// One data load at the L2 that found its line Invalid or absent.
    L2RequestLoadInvalid: "l2_request_load_invalid", modelled;
    /// One data store at the L2 that found its line Modified.
    L2RequestStoreModified: "l2_request_store_modified", modelled;
    /// One data store at the L2 that found its line Exclusive.
    L2RequestStoreExclusive: "l2_request_store_exclusive", modelled;
    /// One data store at the L2 that found its line Shared.
    L2RequestStoreShared: "l2_request_store_shared", modelled;
    /// One data store at the L2 that found its line Invalid or absent.
    L2RequestStoreInvalid: "l2_request_store_invalid", modelled;
    /// One instruction fetch at the L2 that found its line Modified.
    L2RequestIfetchModified: "l2_request_ifetch_modified", modelled;
    /// One instruction fetch at the L2 that found its line Exclusive.
    L2RequestIfetchExclusive: "l2_request_ifetch_exclusive", modelled;
    /// One instruction fetch at the L2 that found its line Shared.
    L2RequestIfetchShared: "l2_request_ifetch_shared", modelled;
    /// One instruction fetch at the L2 that found its line Invalid or absent.
    L2RequestIfetchInvalid: "l2_request_ifetch_invalid", modelled;
    /// One read of the L2, of code or data, that hit a Modified line.
    L2RequestReadModified: "l2_request_read_modified", modelled;
    /// One read of the L2, of code or data, that hit an Exclusive line.
    L2RequestReadExclusive: "l2_request_read_exclusive", modelled;
    /// One read of the L2, of code or data, that hit a Shared line.
    L2RequestReadShared: "l2_request_read_shared", modelled;
    /// One data load at the L2 that found a Modified line which no hardware prefetch had brought.
    L2LoadDemandModified: "l2_load_demand_modified", modelled;
    /// One data load at the L2 that found an Exclusive line which no hardware prefetch had
    /// brought.
    L2LoadDemandExclusive: "l2_load_demand_exclusive", modelled;
    /// One data load at the L2 that found a Shared line which no hardware prefetch had brought.
    L2LoadDemandShared: "l2_load_demand_shared", modelled;
    /// One data load by an instruction at the L2 that found its line Invalid or absent.
    L2LoadDemandInvalid: "l2_load_demand_invalid", modelled;
    /// One data load at the L2 that found a Modified line which a hardware prefetch had brought.
    L2LoadPrefetchedModified: "l2_load_prefetched_modified", modelled;
    /// One data load at the L2 that found an Exclusive line which a hardware prefetch had brought.
    L2LoadPrefetchedExclusive: "l2_load_prefetched_exclusive", modelled;
    /// One data load at the L2 that found a Shared line which a hardware prefetch had brought.
    L2LoadPrefetchedShared: "l2_load_prefetched_shared", modelled;
    /// One load by the hardware prefetcher at the L2 that found its line Invalid or absent.
    L2LoadPrefetchedInvalid: "l2_load_prefetched_invalid", modelled;
    /// One read of the L2's tags.
    L2TagRead: "l2_tag_read", modelled;
    /// One write of the L2's tags.
    L2TagWrite: "l2_tag_write", modelled;
    /// One block read from the L2 for an instruction fetch.
    L2ReadInstruction: "l2_read_instruction", modelled;
    /// One block read from the L2 for a load.
    L2ReadLoad: "l2_read_load", modelled;
    /// One block read from the L2 for a store.
    L2ReadStore: "l2_read_store", modelled;
    /// One block written into the L2 from the system.
    L2WriteFromSystem: "l2_write_from_system", modelled;
    /// One block written into the L2 from the data cache.
    L2WriteFromL1d: "l2_write_from_l1d", modelled;
    /// One block written from the L2.
    L2WriteFromL2: "l2_write_from_l2", modelled;
    /// One read of the L2, of code or data, that missed.
    L2MissRead: "l2_miss_read", modelled;
    /// One code read that missed the L2 and was filled from another core's L2.
    L2MissIfetchFromCache: "l2_miss_ifetch_from_cache", modelled;
    /// One code read that missed the L2 and was filled from memory.
    L2MissIfetchFromMemory: "l2_miss_ifetch_from_memory", modelled;
    /// One data read that missed the L2 and was filled from another core's L2.
    L2MissLoadFromCache: "l2_miss_load_from_cache", modelled;
    /// One data read that missed the L2 and was filled from memory.
    L2MissLoadFromMemory: "l2_miss_load_from_memory", modelled;
    /// One data write that missed the L2 and was filled from another core's L2.
    L2MissStoreFromCache: "l2_miss_store_from_cache", modelled;
    /// One data write that missed the L2 and was filled from memory.
    L2MissStoreFromMemory: "l2_miss_store_from_memory", modelled;
    /// One line written into the L2 in state Modified. Fired beside [`Signal::L2Fill`].
    L2FillModified: "l2_fill_modified", modelled;
    /// One line allocated in the L2 in state Modified, not by a hardware prefetch.
    L2FillDemandModified: "l2_fill_demand_modified", modelled;
    /// One line allocated in the L2 in state Exclusive, not by a hardware prefetch.
    L2FillDemandExclusive: "l2_fill_demand_exclusive", modelled;
    /// One line allocated in the L2 in state Shared, not by a hardware prefetch.
    L2FillDemandShared: "l2_fill_demand_shared", modelled;
    /// One line allocated in the L2 in state Modified by a hardware prefetch.
    L2FillPrefetchedModified: "l2_fill_prefetched_modified", modelled;
    /// One line allocated in the L2 in state Exclusive by a hardware prefetch.
    L2FillPrefetchedExclusive: "l2_fill_prefetched_exclusive", modelled;
    /// One line allocated in the L2 in state Shared by a hardware prefetch.
    L2FillPrefetchedShared: "l2_fill_prefetched_shared", modelled;
    /// One line that left the L2, for any cause.
    L2Evict: "l2_evict", modelled;
    /// One Modified line that left the L2, which no hardware prefetch had brought.
    L2EvictDemandModified: "l2_evict_demand_modified", modelled;
    /// One Exclusive line that left the L2, which no hardware prefetch had brought.
    L2EvictDemandExclusive: "l2_evict_demand_exclusive", modelled;
    /// One Shared line that left the L2, which no hardware prefetch had brought.
    L2EvictDemandShared: "l2_evict_demand_shared", modelled;
    /// One Modified line that left the L2, which a hardware prefetch had brought.
    L2EvictPrefetchedModified: "l2_evict_prefetched_modified", modelled;
    /// One Exclusive line that left the L2, which a hardware prefetch had brought.
    L2EvictPrefetchedExclusive: "l2_evict_prefetched_exclusive", modelled;
    /// One Shared line that left the L2, which a hardware prefetch had brought.
    L2EvictPrefetchedShared: "l2_evict_prefetched_shared", modelled;
    /// One clock in which the L2's data bus was in use.
    L2BusBusy: "l2_bus_busy", modelled;
    /// One clock in which the L2's data bus moved data to the processor.
    L2BusBusyRead: "l2_bus_busy_read", modelled;
    /// One vprefetch0 request seen by the data cache.
    PrefetchL1: "prefetch_l1", modelled;
    /// One vprefetch0 request that missed the data cache.
    PrefetchL1Miss: "prefetch_l1_miss", modelled;
    /// One vprefetch0 request that the data cache dropped.
    PrefetchL1Dropped: "prefetch_l1_dropped", modelled;
    /// One data request that found its line on its way because of a vprefetch0.
    PrefetchL1HitInflight: "prefetch_l1_hit_inflight", modelled;
    /// One vprefetch0 request seen by the L2 that missed there.
    PrefetchL1L2Miss: "prefetch_l1_l2_miss", modelled;
    /// One vprefetch1 request seen by the data cache, dropped ones included.
    PrefetchL2SeenByL1: "prefetch_l2_seen_by_l1", modelled;
    /// One vprefetch1 request seen by the L2.
    PrefetchL2: "prefetch_l2", modelled;
    /// One vprefetch1 request that missed the L2.
    PrefetchL2Miss: "prefetch_l2_miss", modelled;
    /// One vprefetch1 request that the L2 dropped.
    PrefetchL2Dropped: "prefetch_l2_dropped", modelled;
    /// One data request that found its line on its way because of a vprefetch1.
    PrefetchL2HitInflight: "prefetch_l2_hit_inflight", modelled;
    /// One hardware prefetch that hit the L2.
    HwPrefetchL2Hit: "hw_prefetch_l2_hit", modelled;
    /// One hardware prefetch that missed the L2.
    HwPrefetchL2Miss: "hw_prefetch_l2_miss", modelled;
    /// One hardware prefetch issued towards higher addresses.
    HwPrefetchUp: "hw_prefetch_up", modelled;
    /// One hardware prefetch issued towards lower addresses.
    HwPrefetchDown: "hw_prefetch_down", modelled;
    /// One snoop from outside presented to the caches.
    SnoopL1d: "snoop_l1d", modelled;
    /// One snoop from outside that hit the data cache.
    SnoopHitL1d: "snoop_hit_l1d", modelled;
    /// One snoop from outside that hit the instruction cache.
    SnoopHitL1i: "snoop_hit_l1i", modelled;
    /// One snoop from outside that hit the L2.
    SnoopHitL2: "snoop_hit_l2", modelled;
    /// One snoop from outside that found a Modified line in the L2.
    SnoopHitmL2: "snoop_hitm_l2", modelled;
    /// One snoop from outside that found a Modified line in the bus unit.
    SnoopHitmBus: "snoop_hitm_bus", modelled;
    /// One bus transaction of any kind by this processor.
    BusTransaction: "bus_transaction", modelled;
    /// One bus transaction of any kind by any agent.
    BusTransactionAny: "bus_transaction_any", modelled;
    /// One memory transaction on the bus by this processor.
    BusMemory: "bus_memory", modelled;
    /// One memory transaction on the bus by any agent.
    BusMemoryAny: "bus_memory_any", modelled;
    /// One I/O transaction on the bus by any agent.
    BusIoAny: "bus_io_any", modelled;
    /// One read for ownership on the bus by this processor.
    BusRfo: "bus_rfo", modelled;
    /// One read for ownership on the bus by any agent.
    BusRfoAny: "bus_rfo_any", modelled;
    /// One instruction fetch on the bus by this processor.
    BusIfetch: "bus_ifetch", modelled;
    /// One instruction fetch on the bus by any agent.
    BusIfetchAny: "bus_ifetch_any", modelled;
    /// One invalidation on the bus by this processor.
    BusInvalidate: "bus_invalidate", modelled;
    /// One invalidation on the bus by any agent.
    BusInvalidateAny: "bus_invalidate_any", modelled;
    /// One transaction on the bus for part of a line, by this processor.
    BusPartial: "bus_partial", modelled;
    /// One transaction on the bus for part of a line, by any agent.
    BusPartialAny: "bus_partial_any", modelled;
    /// One write on the bus of part of a line, by this processor.
    BusPartialWrite: "bus_partial_write", modelled;
    /// One write on the bus of part of a line, by any agent.
    BusPartialWriteAny: "bus_partial_write_any", modelled;
    /// One burst on the bus for a whole line, by this processor.
    BusBurst: "bus_burst", modelled;
    /// One burst on the bus for a whole line, by any agent.
    BusBurstAny: "bus_burst_any", modelled;
    /// One burst read on the bus by this processor.
    BusBurstRead: "bus_burst_read", modelled;
    /// One burst read on the bus by any agent.
    BusBurstReadAny: "bus_burst_read_any", modelled;
    /// One write-back on the bus by this processor.
    BusWriteback: "bus_writeback", modelled;
    /// One write-back on the bus by any agent.
    BusWritebackAny: "bus_writeback_any", modelled;
    /// One clock in which a bus cycle of this processor was in progress.
    BusBusy: "bus_busy", modelled;
    /// One bus clock in which this processor drove data ready.
    BusDrdy: "bus_drdy", modelled;
    /// One clock in which any agent drove data ready.
    BusDrdyAny: "bus_drdy_any", modelled;
    /// One clock in which this processor locked the bus.
    BusLock: "bus_lock", modelled;
    /// One clock in which any agent locked the bus.
    BusLockAny: "bus_lock_any", modelled;
    /// One bus clock in which this processor received data.
    BusDataReceive: "bus_data_receive", modelled;
    /// One bus clock in which this processor answered a snoop with HIT.
    BusHit: "bus_hit", modelled;
    /// One bus clock in which this processor answered a snoop with HITM.
    BusHitm: "bus_hitm", modelled;
    /// One clock in which a snoop stalled the bus.
    BusSnoopStall: "bus_snoop_stall", modelled;
    /// One stall of a pipe because an address register was written just before its use.
    StallAgi: "stall_agi", modelled;
    /// One clock in which the floating-point unit froze the pipeline.
    StallFpu: "stall_fpu", modelled;
    /// One clock in which the pipeline waited for a data read.
    StallLoadMiss: "stall_load_miss", modelled;
    /// One clock in which the pipeline waited for a data read of an MMX instruction. Fired beside
    /// [`Signal::StallLoadMiss`].
    StallLoadMissMmx: "stall_load_miss_mmx", modelled;
    /// One clock in which the pipeline waited because the write buffers were full.
    StallStoreBufferFull: "stall_store_buffer_full", modelled;
    /// One such clock while MMX instructions were executing. Fired beside
    /// [`Signal::StallStoreBufferFull`].
    StallStoreBufferFullMmx: "stall_store_buffer_full_mmx", modelled;
    /// One clock in which a write to an Exclusive or Modified line waited behind earlier writes.
    StallStoreEmLine: "stall_store_em_line", modelled;
    /// One such clock of a write by an MMX instruction. Fired beside [`Signal::StallStoreEmLine`].
    StallStoreEmLineMmx: "stall_store_em_line_mmx", modelled;
    /// One clock in which the pipeline waited for a refill of the data TLB.
    StallDtlbMiss: "stall_dtlb_miss", modelled;
    /// One time that the D1 stage could issue nothing because the FIFO was empty.
    StallD1FifoEmpty: "stall_d1_fifo_empty", modelled;
    /// One time that the D1 stage could issue only one instruction because the FIFO held just one.
    StallD1OneInFifo: "stall_d1_one_in_fifo", modelled;
    /// One clock in which the pipeline waited for the MMX multiplier.
    StallMmxMultiply: "stall_mmx_multiply", modelled;
    /// One clock in which a MOVD or MOVQ store waited for an earlier MMX result.
    StallMmxStoreData: "stall_mmx_store_data", modelled;
    /// One clock in which the instruction-length decoder was held up.
    StallLengthDecode: "stall_length_decode", modelled;
    /// One load held back by the store buffer.
    StallLoadBlocked: "stall_load_blocked", modelled;
    /// One clock in which the store buffer drained.
    StallStoreBufferDrain: "stall_store_buffer_drain", modelled;
    /// One clock in which an execution resource was wanting.
    StallResource: "stall_resource", modelled;
    /// One clock in which a partial register was waited for.
    StallPartialRegister: "stall_partial_register", modelled;
    /// One stall for want of a slot to rename ES.
    StallSegRenameEs: "stall_seg_rename_es", modelled;
    /// One stall for want of a slot to rename DS.
    StallSegRenameDs: "stall_seg_rename_ds", modelled;
    /// One stall for want of a slot to rename FS.
    StallSegRenameFs: "stall_seg_rename_fs", modelled;
    /// One stall for want of a slot to rename GS.
    StallSegRenameGs: "stall_seg_rename_gs", modelled;
    /// One clock in which at least one fill request waited for the L2.
    StallL2FillWait: "stall_l2_fill_wait", modelled;
    /// One clock in which the front end could not advance.
    StallFrontend: "stall_frontend", modelled;
    /// One clock spent in microcode, in which the other threads wait.
    MicrocodeBusy: "microcode_busy", modelled;
    /// One clock completed in the integer execution stage.
    EStageBusy: "e_stage_busy", modelled;
}

impl Signal {
    /// How many signals there are.
    pub const COUNT: usize = Signal::ALL.len();

    /// The signal with this name; capitals and small letters alike.
    pub fn by_name(name: &str) -> Option<Signal> {
        Signal::ALL.iter().copied().find(|signal| signal.name().eq_ignore_ascii_case(name))
    }

    /// Position in [`Signal::ALL`] and in every table indexed by signal.
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The subscription table has room for 64 of them.
    #[test]
    fn architectural_signals_are_few() {
        assert!(Signal::ALL.iter().filter(|signal| signal.is_architectural()).count() <= 64);
    }

    /// Every name finds its own signal, so no two are equal.
    #[test]
    fn names_find_their_signals() {
        for &signal in Signal::ALL {
            assert_eq!(Signal::by_name(signal.name()), Some(signal));
        }
        assert_eq!(Signal::by_name("L1D_Miss"), Some(Signal::L1dMiss));
        assert_eq!(Signal::by_name("l1d_mis"), None);
        assert_eq!(Signal::by_name(""), None);
    }
}

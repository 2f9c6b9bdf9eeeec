//! The signal vocabulary: what an engine can tell the PMU.
//!
//! A *signal* is a micro-architectural fact; an *event* is what one personality lets a guest
//! select. Engines only fire signals; the event tables say which select counts which signals.
//! Which of them an engine can tell of is not said here but with each personality ([`crate::Tier`]).
//! Signals that specialise another (a near return is a branch) are fired beside it, so an event
//! never has to add up special cases to get the whole.

/// One row a signal: doc, variant, name.
macro_rules! signals {
    ($($(#[$doc:meta])* $variant:ident: $name:literal;)*) => {
        /// A micro-architectural fact that can be counted. Closed: every event of every
        /// personality is a sum of these.
        ///
        /// Each variant's text says what one occurrence is. Values are dense from 0, so that
        /// tables can be indexed by them; they are not stable between versions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
        }
    };
}

signals! {
    /// One instruction retired: an architectural instruction completed and its results are
    /// visible. A REP string instruction is one, however often it iterates; exceptions and
    /// interrupts are not included (they fire signals of their own).
    InsnRetired: "insn_retired";
    /// One CLFLUSH instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredClflush: "insn_retired_clflush";
    /// One CPUID instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredCpuid: "insn_retired_cpuid";
    /// One x87 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredX87: "insn_retired_x87";
    /// One MMX or 3DNow! instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredMmx: "insn_retired_mmx";
    /// One packed SSE, SSE2 or SSE3 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredSsePacked: "insn_retired_sse_packed";
    /// One scalar SSE, SSE2 or SSE3 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredSseScalar: "insn_retired_sse_scalar";
    /// One exception (fault or trap) delivered. INT n is not one: it is a far transfer
    /// ([`Signal::BranchRetiredFar`]).
    ExceptionTaken: "exception_taken";
    /// One hardware interrupt taken, NMI included. INT n is not one.
    InterruptTaken: "interrupt_taken";
    /// One branch instruction retired, of any kind: conditional (taken or not), jump, call,
    /// return, and every far transfer. Exceptions and interrupts are not included.
    BranchRetired: "branch_retired";
    /// One branch instruction retired that changed the flow: a taken conditional, or any
    /// unconditional near or far transfer. Fired beside [`Signal::BranchRetired`].
    BranchTaken: "branch_taken";
    /// One near return retired. Fired beside [`Signal::BranchRetired`].
    BranchRetiredRet: "branch_retired_ret";
    /// One far transfer instruction retired: far call, far jump, far return, IRET, SYSCALL,
    /// SYSRET, SYSENTER, SYSEXIT, INT n. Fired beside [`Signal::BranchRetired`].
    BranchRetiredFar: "branch_retired_far";
    /// One load of ES.
    SegLoadEs: "seg_load_es";
    /// One load of CS.
    SegLoadCs: "seg_load_cs";
    /// One load of SS.
    SegLoadSs: "seg_load_ss";
    /// One load of DS.
    SegLoadDs: "seg_load_ds";
    /// One load of FS.
    SegLoadFs: "seg_load_fs";
    /// One load of GS.
    SegLoadGs: "seg_load_gs";
    /// One data access that crosses the boundary of the personality (eight bytes on K8).
    Misaligned: "misaligned";
    /// One locked instruction executed: a LOCK prefix, or XCHG with memory.
    LockedOp: "locked_op";
    /// One match of breakpoint register DR0 for the type set in DR7, whether or not the
    /// breakpoint is enabled.
    DebugMatch0: "debug_match0";
    /// One match of breakpoint register DR1, as for DR0.
    DebugMatch1: "debug_match1";
    /// One match of breakpoint register DR2, as for DR0.
    DebugMatch2: "debug_match2";
    /// One match of breakpoint register DR3, as for DR0.
    DebugMatch3: "debug_match3";
    /// One processor clock in which the processor was not halted.
    CyclesUnhalted: "cycles_unhalted";
    /// One unhalted clock with EFLAGS.IF = 0.
    CyclesIntMasked: "cycles_int_masked";
    /// One unhalted clock with EFLAGS.IF = 0 and an interrupt pending. Fired beside
    /// [`Signal::CyclesIntMasked`].
    CyclesIntMaskedPending: "cycles_int_masked_pending";
    /// One floating-point operation that returns its flags to the integer side: FCOMI, FCOMIP,
    /// FUCOMI, FUCOMIP, COMISS, COMISD, UCOMISS, UCOMISD.
    FpuOpFastFlag: "fpu_op_fast_flag";
    /// One PREFETCH, PREFETCHT0, PREFETCHT1 or PREFETCHT2 instruction sent on by the decoder.
    SoftPrefetchLoad: "soft_prefetch_load";
    /// One PREFETCHW instruction sent on by the decoder.
    SoftPrefetchStore: "soft_prefetch_store";
    /// One PREFETCHNTA instruction sent on by the decoder.
    SoftPrefetchNta: "soft_prefetch_nta";
    /// One data read by an instruction: each access is one, in strings and on the stack too. Page
    /// walks and descriptor fetches are not included.
    Load: "load";
    /// One data write by an instruction, as for [`Signal::Load`], or one push of an interrupt or an
    /// exception.
    Store: "store";
    /// One data read by an MMX instruction. Fired beside [`Signal::Load`].
    LoadMmx: "load_mmx";
    /// One data write by an MMX instruction. Fired beside [`Signal::Store`].
    StoreMmx: "store_mmx";
    /// One misaligned data access by an MMX instruction. Fired beside [`Signal::Misaligned`].
    MisalignedMmx: "misaligned_mmx";
    /// One read or write cycle of port space.
    IoAccess: "io_access";
    /// One computational x87 operation retired.
    X87Flop: "x87_flop";
    /// One EMMS instruction retired. Fired beside [`Signal::InsnRetiredMmx`].
    MmxEmms: "mmx_emms";
    /// One change from x87 to MMX use of the register file.
    MmxFpToMmx: "mmx_fp_to_mmx";
    /// One change from MMX to x87 use of the register file.
    MmxMmxToFp: "mmx_mmx_to_fp";
    /// One MMX instruction of a saturating form retired, whether or not a result was clamped.
    MmxSaturating: "mmx_saturating";
    /// One saturating MMX instruction retired that clamped at least one element. Fired beside
    /// [`Signal::MmxSaturating`].
    MmxSaturated: "mmx_saturated";
    /// One packed multiply of MMX retired.
    MmxPackedMultiply: "mmx_packed_multiply";
    /// One packed shift of MMX retired.
    MmxPackedShift: "mmx_packed_shift";
    /// One pack instruction of MMX retired.
    MmxPack: "mmx_pack";
    /// One unpack instruction of MMX retired.
    MmxUnpack: "mmx_unpack";
    /// One packed logical instruction of MMX retired.
    MmxPackedLogical: "mmx_packed_logical";
    /// One packed arithmetic instruction of MMX retired that is not a multiply.
    MmxPackedArithmetic: "mmx_packed_arithmetic";
    /// One packed arithmetic SSE instruction retired. Fired beside
    /// [`Signal::InsnRetiredSsePacked`].
    SsePackedArith: "sse_packed_arith";
    /// One scalar arithmetic SSE instruction retired. Fired beside
    /// [`Signal::InsnRetiredSseScalar`].
    SseScalarArith: "sse_scalar_arith";
    /// One operation without a memory operand sent to the FPU's add pipe.
    FpuOpAdd: "fpu_op_add";
    /// One operation without a memory operand sent to the FPU's multiply pipe.
    FpuOpMul: "fpu_op_mul";
    /// One operation without a memory operand sent to the FPU's store pipe.
    FpuOpStore: "fpu_op_store";
    /// One operation with a load sent to the FPU's add pipe.
    FpuOpAddLoad: "fpu_op_add_load";
    /// One operation with a load sent to the FPU's multiply pipe.
    FpuOpMulLoad: "fpu_op_mul_load";
    /// One operation with a load sent to the FPU's store pipe.
    FpuOpStoreLoad: "fpu_op_store_load";
    /// One x87 reclass microfault.
    FpAssistX87Reclass: "fp_assist_x87_reclass";
    /// One SSE retype microfault.
    FpAssistSseRetype: "fp_assist_sse_retype";
    /// One SSE reclass microfault.
    FpAssistSseReclass: "fp_assist_sse_reclass";
    /// One SSE or x87 microtrap.
    FpAssistMicrotrap: "fp_assist_microtrap";
    /// One micro-operation retired, from any activity.
    UopRetired: "uop_retired";
    /// One fast-path double instruction retired with its low half in slot 0.
    UopFastpathDouble0: "uop_fastpath_double0";
    /// One fast-path double instruction retired with its low half in slot 1.
    UopFastpathDouble1: "uop_fastpath_double1";
    /// One fast-path double instruction retired with its low half in slot 2.
    UopFastpathDouble2: "uop_fastpath_double2";
    /// One near branch retired whose direction or target was predicted wrongly.
    BranchMispredicted: "branch_mispredicted";
    /// One taken near branch retired that was predicted wrongly.
    BranchMispredictedTaken: "branch_mispredicted_taken";
    /// One near return retired whose target was predicted wrongly.
    BranchMispredictedRet: "branch_mispredicted_ret";
    /// One indirect branch retired whose target was predicted wrongly.
    BranchMispredictedIndirect: "branch_mispredicted_indirect";
    /// One near return that took its target from the return stack, rightly or not.
    RasPredicted: "ras_predicted";
    /// One near call that pushed the return stack past its depth.
    RasOverflow: "ras_overflow";
    /// One pipeline restart because a store hit instructions already fetched.
    FlushSmc: "flush_smc";
    /// One pipeline restart because an invalidating probe hit a load that had run early.
    FlushProbeLoad: "flush_probe_load";
    /// One pipeline restart because an invalidating probe hit the running instruction stream.
    FlushProbeIfetch: "flush_probe_ifetch";
    /// One pipeline restart by a microcode assist or a write to the active code.
    FlushResync: "flush_resync";
    /// One clock that a locked operation spent in its speculative phase.
    LockedSpeculativeCycles: "locked_speculative_cycles";
    /// One clock that a locked operation spent in its non-speculative phase, misses included.
    LockedNonSpeculativeCycles: "locked_non_speculative_cycles";
    /// One request to uncacheable (UC) memory.
    UncachedAccess: "uncached_access";
    /// One flush of a write-combining buffer filled by stores to WC memory.
    WcFlush: "wc_flush";
    /// One flush of a write-combining buffer filled by streaming stores.
    WcFlushStreaming: "wc_flush_streaming";
    /// One data-cache access of up to eight bytes, by a load or a store.
    L1dAccess: "l1d_access";
    /// One data-cache miss: the first for its line, and every streaming store.
    L1dMiss: "l1d_miss";
    /// One data-cache miss by a locked instruction. Fired beside [`Signal::L1dMiss`].
    L1dMissLocked: "l1d_miss_locked";
    /// One line refilled into the data cache from the L2 in state Shared.
    L1dRefillL2Shared: "l1d_refill_l2_shared";
    /// One line refilled into the data cache from the L2 in state Exclusive.
    L1dRefillL2Exclusive: "l1d_refill_l2_exclusive";
    /// One line refilled into the data cache from the L2 in state Owned.
    L1dRefillL2Owned: "l1d_refill_l2_owned";
    /// One line refilled into the data cache from the L2 in state Modified.
    L1dRefillL2Modified: "l1d_refill_l2_modified";
    /// One line refilled into the data cache from memory or another cache in state Invalid.
    L1dRefillSystemInvalid: "l1d_refill_system_invalid";
    /// One line refilled into the data cache from memory or another cache in state Shared.
    L1dRefillSystemShared: "l1d_refill_system_shared";
    /// One line refilled into the data cache from memory or another cache in state Exclusive.
    L1dRefillSystemExclusive: "l1d_refill_system_exclusive";
    /// One line refilled into the data cache from memory or another cache in state Owned.
    L1dRefillSystemOwned: "l1d_refill_system_owned";
    /// One line refilled into the data cache from memory or another cache in state Modified.
    L1dRefillSystemModified: "l1d_refill_system_modified";
    /// One data-cache line displaced by a refill in state Invalid (a probe had taken it).
    L1dEvictInvalid: "l1d_evict_invalid";
    /// One data-cache line displaced by a refill in state Shared.
    L1dEvictShared: "l1d_evict_shared";
    /// One data-cache line displaced by a refill in state Exclusive.
    L1dEvictExclusive: "l1d_evict_exclusive";
    /// One data-cache line displaced by a refill in state Owned.
    L1dEvictOwned: "l1d_evict_owned";
    /// One data-cache line displaced by a refill in state Modified.
    L1dEvictModified: "l1d_evict_modified";
    /// One data access that missed the first-level TLB and hit the second.
    DtlbMissL1: "dtlb_miss_l1";
    /// One data access that missed every TLB level.
    DtlbMissLast: "dtlb_miss_last";
    /// One instruction fetch that missed the first-level TLB and hit the second.
    ItlbMissL1: "itlb_miss_l1";
    /// One instruction fetch that missed every TLB level.
    ItlbMissLast: "itlb_miss_last";
    /// One read of the instruction cache, of the personality's fetch width (16 aligned bytes on
    /// K8).
    L1iFetch: "l1i_fetch";
    /// One instruction fetch that missed the instruction cache.
    L1iMiss: "l1i_miss";
    /// One line refilled into the instruction cache from the L2.
    L1iRefillL2: "l1i_refill_l2";
    /// One line refilled into the instruction cache from memory or another cache.
    L1iRefillSystem: "l1i_refill_system";
    /// One read request to the L2 for an instruction-cache fill, retries included.
    L2RequestIfetch: "l2_request_ifetch";
    /// One read request to the L2 for a data-cache fill, retries included.
    L2RequestData: "l2_request_data";
    /// One read request to the L2 for a page-table walk.
    L2RequestTlb: "l2_request_tlb";
    /// One tag snoop request to the L2.
    L2RequestSnoop: "l2_request_snoop";
    /// One request to the L2 that was cancelled.
    L2RequestCancelled: "l2_request_cancelled";
    /// One L2 miss of an instruction-cache fill.
    L2MissIfetch: "l2_miss_ifetch";
    /// One L2 miss of a data-cache fill.
    L2MissData: "l2_miss_data";
    /// One L2 miss of a page-table walk.
    L2MissTlb: "l2_miss_tlb";
    /// One line written into the L2, for any cause: a refill, an L1 victim, a page-table walk, a
    /// prefetch.
    L2Fill: "l2_fill";
    /// One dirty line written back from the L2 to the system.
    L2EvictModified: "l2_evict_modified";
    /// One prefetch attempted by the hardware data prefetcher.
    HwPrefetchAttempt: "hw_prefetch_attempt";
    /// One hardware prefetch cancelled because the line was already there. Fired beside
    /// [`Signal::HwPrefetchAttempt`].
    HwPrefetchCancelled: "hw_prefetch_cancelled";
    /// One line-sized response of the system to a refill, in state Exclusive.
    SystemReadExclusive: "system_read_exclusive";
    /// One line-sized response of the system to a refill, in state Modified.
    SystemReadModified: "system_read_modified";
    /// One line-sized response of the system to a refill, in state Shared.
    SystemReadShared: "system_read_shared";
    /// One eight-byte transfer sent to the system.
    SystemWriteQword: "system_write_qword";
    /// One clock in which the FPU retired nothing.
    StallNoFpuRetire: "stall_no_fpu_retire";
    /// One access cancelled late inside the core.
    StallLateCancel: "stall_late_cancel";
    /// One access cancelled early inside the core.
    StallEarlyCancel: "stall_early_cancel";
    /// One clock in which the second load/store buffer was full.
    StallLs2Full: "stall_ls2_full";
    /// One clock in which the instruction fetcher was stalled.
    StallIfetch: "stall_ifetch";
    /// One clock in which the decoder had nothing to dispatch.
    StallDecoderEmpty: "stall_decoder_empty";
    /// One clock in which dispatch was held for any of the causes below.
    StallDispatchAny: "stall_dispatch_any";
    /// One dispatch-stall clock waiting for a mispredicted branch to retire.
    StallBranchAbort: "stall_branch_abort";
    /// One dispatch-stall clock for a serializing operation.
    StallSerialize: "stall_serialize";
    /// One dispatch-stall clock for a segment load behind another.
    StallSegmentLoad: "stall_segment_load";
    /// One dispatch-stall clock with the reorder buffer full.
    StallRobFull: "stall_rob_full";
    /// One dispatch-stall clock with an integer reservation station full.
    StallRsFull: "stall_rs_full";
    /// One dispatch-stall clock with the floating-point scheduler full.
    StallFpuFull: "stall_fpu_full";
    /// One dispatch-stall clock with the load/store unit full.
    StallLsFull: "stall_ls_full";
    /// One dispatch-stall clock waiting for every outstanding system request.
    StallAllQuiet: "stall_all_quiet";
    /// One dispatch-stall clock waiting for a far transfer or a resync to retire.
    StallFarOrResync: "stall_far_or_resync";
    /// One DRAM access that hit the open page.
    DramPageHit: "dram_page_hit";
    /// One DRAM access that found no page open.
    DramPageMiss: "dram_page_miss";
    /// One DRAM access that found another page open.
    DramPageConflict: "dram_page_conflict";
    /// One time that a new DRAM page was wanted with the open-page table full.
    DramPageTableOverflow: "dram_page_table_overflow";
    /// One turnaround of the DRAM bus between chip selects.
    DramTurnaroundChipSelect: "dram_turnaround_chip_select";
    /// One turnaround of the DRAM bus from read to write.
    DramTurnaroundReadToWrite: "dram_turnaround_read_to_write";
    /// One turnaround of the DRAM bus from write to read.
    DramTurnaroundWriteToRead: "dram_turnaround_write_to_read";
    /// One 32-byte sized write at the northbridge.
    SizedBlockWrite32: "sized_block_write32";
    /// One 64-byte sized write at the northbridge.
    SizedBlockWrite64: "sized_block_write64";
    /// One 32-byte sized read at the northbridge.
    SizedBlockRead32: "sized_block_read32";
    /// One 64-byte sized read at the northbridge.
    SizedBlockRead64: "sized_block_read64";
    /// One request of a local processor to local memory.
    NbRequestCpuToMem: "nb_request_cpu_to_mem";
    /// One request of a local processor to local I/O.
    NbRequestCpuToIo: "nb_request_cpu_to_io";
    /// One request of local I/O to local memory.
    NbRequestIoToMem: "nb_request_io_to_mem";
    /// One request of local I/O to local I/O.
    NbRequestIoToIo: "nb_request_io_to_io";
    /// One victim block (write-back) command.
    CacheBlockVictim: "cache_block_victim";
    /// One read block command (data-cache load refill).
    CacheBlockRead: "cache_block_read";
    /// One read block shared command (instruction-cache refill).
    CacheBlockReadShared: "cache_block_read_shared";
    /// One read block modified command (data-cache store refill).
    CacheBlockReadModified: "cache_block_read_modified";
    /// One change-to-dirty command (first store to a clean line).
    CacheBlockChangeToDirty: "cache_block_change_to_dirty";
    /// One non-posted sized write of bytes (1-32 bytes).
    SizedNonPostedWriteByte: "sized_non_posted_write_byte";
    /// One non-posted sized write of doublewords (1-16).
    SizedNonPostedWriteDword: "sized_non_posted_write_dword";
    /// One posted sized write of bytes (1-32 bytes).
    SizedPostedWriteByte: "sized_posted_write_byte";
    /// One posted sized write of doublewords (1-16).
    SizedPostedWriteDword: "sized_posted_write_dword";
    /// One sized read of bytes (4 bytes).
    SizedReadByte: "sized_read_byte";
    /// One sized read of doublewords (1-16).
    SizedReadDword: "sized_read_dword";
    /// One sized read-modify-write.
    SizedReadModifyWrite: "sized_read_modify_write";
    /// One probe that missed.
    ProbeMiss: "probe_miss";
    /// One probe that hit a clean line.
    ProbeHitClean: "probe_hit_clean";
    /// One probe that hit a dirty line, without memory cancel (a sized write or change-to-dirty
    /// asked).
    ProbeHitDirtyKeep: "probe_hit_dirty_keep";
    /// One probe that hit a dirty line, with memory cancel (a DMA read or a refill asked).
    ProbeHitDirtyCancel: "probe_hit_dirty_cancel";
    /// One upstream read for display refresh.
    IoDmaDisplayRead: "io_dma_display_read";
    /// One upstream read that is not for display refresh.
    IoDmaRead: "io_dma_read";
    /// One upstream write.
    IoDmaWrite: "io_dma_write";
    /// One computational x87 operation executed, on a mispredicted path too; on the P6 family also one
    /// integer multiplication or division.
    X87FlopExecuted: "x87_flop_executed";
    /// One multiply executed, integer or floating-point.
    ArithMul: "arith_mul";
    /// One divide executed, integer or floating-point.
    ArithDiv: "arith_div";
    /// One clock in which the divider was busy.
    DividerBusy: "divider_busy";
    /// One floating-point case handed to microcode.
    FpAssist: "fp_assist";
    /// One MMX micro-operation executed.
    UopMmx: "uop_mmx";
    /// One synchronising micro-operation.
    UopSync: "uop_sync";
    /// One micro-operation that brings the stack pointer up to date.
    UopEsp: "uop_esp";
    /// One fused micro-operation retired of a load with an operation.
    UopFusedLoadOp: "uop_fused_load_op";
    /// One fused micro-operation retired of a store's address and data.
    UopFusedStore: "uop_fused_store";
    /// One fused micro-operation taken apart because of a floating-point exception.
    Unfusion: "unfusion";
    /// One packed single-precision SSE instruction retired.
    SsePackedSingle: "sse_packed_single";
    /// One scalar single-precision SSE instruction retired.
    SseScalarSingle: "sse_scalar_single";
    /// One packed double-precision SSE2 instruction retired.
    SsePackedDouble: "sse_packed_double";
    /// One scalar double-precision SSE2 instruction retired.
    SseScalarDouble: "sse_scalar_double";
    /// One packed single-precision arithmetic SSE instruction retired.
    SsePackedSingleArith: "sse_packed_single_arith";
    /// One scalar single-precision arithmetic SSE instruction retired.
    SseScalarSingleArith: "sse_scalar_single_arith";
    /// One packed double-precision arithmetic SSE2 instruction retired.
    SsePackedDoubleArith: "sse_packed_double_arith";
    /// One scalar double-precision arithmetic SSE2 instruction retired.
    SseScalarDoubleArith: "sse_scalar_double_arith";
    /// One instruction of the vector unit retired, those on mask registers included.
    VpuOp: "vpu_op";
    /// One instruction of the vector unit executed in the V pipe, beside another in the U pipe.
    VpuOpV: "vpu_op_v";
    /// One element that an instruction of the vector unit worked on.
    VpuElementActive: "vpu_element_active";
    /// One line of memory read by the vector unit.
    LoadVpu: "load_vpu";
    /// One line of memory written by the vector unit.
    StoreVpu: "store_vpu";
    /// One MMX instruction executed in the U pipe.
    MmxPipeU: "mmx_pipe_u";
    /// One MMX instruction executed in the V pipe.
    MmxPipeV: "mmx_pipe_v";
    /// One instruction executed in the V pipe, which is one pair.
    PairV: "pair_v";
    /// One pair of data accesses, in the U and the V pipe.
    PairVMem: "pair_v_mem";
    /// One instruction decoded, on a mispredicted path too.
    InsnDecoded: "insn_decoded";
    /// One branch instruction decoded, on a mispredicted path too.
    BranchDecoded: "branch_decoded";
    /// One branch retired that was predicted taken and was not.
    BranchMispredictedNotTaken: "branch_mispredicted_not_taken";
    /// One branch retired that hit the branch target buffer and was predicted wrongly.
    BranchMispredictedBtbHit: "branch_mispredicted_btb_hit";
    /// One branch instruction executed, on a mispredicted path too.
    BranchExecuted: "branch_executed";
    /// One branch instruction whose misprediction was found at execution.
    BranchExecutedMispredicted: "branch_executed_mispredicted";
    /// One branch instruction whose misprediction was found at decode.
    BranchExecutedMispredictedDecode: "branch_executed_mispredicted_decode";
    /// One conditional branch executed.
    BranchExecutedConditional: "branch_executed_conditional";
    /// One conditional branch executed that was predicted wrongly.
    BranchExecutedConditionalMispredicted: "branch_executed_conditional_mispredicted";
    /// One indirect branch executed.
    BranchExecutedIndirect: "branch_executed_indirect";
    /// One indirect branch executed that was predicted wrongly.
    BranchExecutedIndirectMispredicted: "branch_executed_indirect_mispredicted";
    /// One near return executed.
    BranchExecutedRet: "branch_executed_ret";
    /// One near return whose misprediction was found at execution.
    BranchExecutedRetMispredicted: "branch_executed_ret_mispredicted";
    /// One near return whose misprediction was found at decode.
    BranchExecutedRetMispredictedDecode: "branch_executed_ret_mispredicted_decode";
    /// One near call executed.
    BranchExecutedCall: "branch_executed_call";
    /// One near call executed that was predicted wrongly.
    BranchExecutedCallMispredicted: "branch_executed_call_mispredicted";
    /// One indirect call executed.
    BranchExecutedIndirectCall: "branch_executed_indirect_call";
    /// One branch for which the branch target buffer supplied a prediction.
    BtbHit: "btb_hit";
    /// One branch for which the branch target buffer had no entry.
    BtbMiss: "btb_miss";
    /// One branch that was taken, or hit the branch target buffer, or both.
    BtbHitOrTaken: "btb_hit_or_taken";
    /// One hit of the branch target buffer on what was not a branch.
    BtbFalseEntry: "btb_false_entry";
    /// One prediction of a branch where there was none.
    FrontendBogusBranch: "frontend_bogus_branch";
    /// One time that the branch calculator of the decoder put fetch on another path.
    FrontendBaclear: "frontend_baclear";
    /// One time that the pipeline was emptied, for any cause.
    PipelineFlush: "pipeline_flush";
    /// One time that the pipeline was emptied because of a wrong prediction. Fired beside
    /// [`Signal::PipelineFlush`].
    FlushMispredict: "flush_mispredict";
    /// One wrong prediction found only in the write-back stage. Fired beside
    /// [`Signal::FlushMispredict`].
    FlushMispredictWb: "flush_mispredict_wb";
    /// One bus read of memory that may not be cached.
    UncachedRead: "uncached_read";
    /// One write to memory that may not be cached.
    UncachedWrite: "uncached_write";
    /// One system request for write-through (WT) memory.
    SystemRequestWt: "system_request_wt";
    /// One system request for write-protected (WP) memory.
    SystemRequestWp: "system_request_wp";
    /// One system request for write-back (WB) memory.
    SystemRequestWb: "system_request_wb";
    /// One weakly ordered (streaming) store dispatched.
    WeakStore: "weak_store";
    /// One weakly ordered (streaming) store that missed every cache.
    WeakStoreMiss: "weak_store_miss";
    /// One prefetch instruction with the T1 hint dispatched.
    SoftPrefetchT1: "soft_prefetch_t1";
    /// One prefetch instruction with the T2 hint dispatched.
    SoftPrefetchT2: "soft_prefetch_t2";
    /// One prefetch instruction with the NTA hint that missed every cache.
    SoftPrefetchNtaMiss: "soft_prefetch_nta_miss";
    /// One prefetch instruction with the T1 hint that missed every cache.
    SoftPrefetchT1Miss: "soft_prefetch_t1_miss";
    /// One prefetch instruction with the T2 hint that missed every cache.
    SoftPrefetchT2Miss: "soft_prefetch_t2_miss";
    /// One data read that missed the data cache. Fired beside [`Signal::L1dMiss`].
    L1dMissLoad: "l1d_miss_load";
    /// One data write that missed the data cache. Fired beside [`Signal::L1dMiss`].
    L1dMissStore: "l1d_miss_store";
    /// One data read by an MMX instruction that missed the data cache. Fired beside
    /// [`Signal::L1dMissLoad`].
    L1dMissLoadMmx: "l1d_miss_load_mmx";
    /// One data write by an MMX instruction that missed the data cache. Fired beside
    /// [`Signal::L1dMissStore`].
    L1dMissStoreMmx: "l1d_miss_store_mmx";
    /// One line read by the vector unit that missed the data cache. Fired beside
    /// [`Signal::L1dMissLoad`].
    L1dMissLoadVpu: "l1d_miss_load_vpu";
    /// One line written by the vector unit that missed the data cache. Fired beside
    /// [`Signal::L1dMissStore`].
    L1dMissStoreVpu: "l1d_miss_store_vpu";
    /// One data write that hit a line held Modified or Exclusive.
    L1dStoreHitOwned: "l1d_store_hit_owned";
    /// One line refilled into the data cache from the L2 in state Invalid.
    L1dRefillL2Invalid: "l1d_refill_l2_invalid";
    /// One dirty line that left the data cache, for any cause.
    L1dWriteback: "l1d_writeback";
    /// One pair of data accesses that collided on a bank of the data cache.
    L1dBankConflict: "l1d_bank_conflict";
    /// One line that the instruction cache made the data cache drop.
    L1iInvalidatesL1d: "l1i_invalidates_l1d";
    /// One line that the instruction cache made itself drop.
    L1iInvalidatesL1i: "l1i_invalidates_l1i";
    /// One line that the data cache made itself drop.
    L1dInvalidatesL1d: "l1d_invalidates_l1d";
    /// One line that the data cache made the instruction cache drop.
    L1dInvalidatesL1i: "l1d_invalidates_l1i";
    /// One data-cache miss outstanding in one clock.
    MissOutstandingL1d: "miss_outstanding_l1d";
    /// One cacheable read request outstanding on the bus in one clock.
    MissOutstandingBus: "miss_outstanding_bus";
    /// One page walk for data.
    PageWalkData: "page_walk_data";
    /// One page walk for code.
    PageWalkCode: "page_walk_code";
    /// One page walk for data that the second-level TLB missed too. Fired beside
    /// [`Signal::PageWalkData`].
    PageWalkDataLong: "page_walk_data_long";
    /// One page walk for code that the second-level TLB missed too. Fired beside
    /// [`Signal::PageWalkCode`].
    PageWalkCodeLong: "page_walk_code_long";
    /// One request to the L2, of any kind, that found its line Modified.
    L2RequestModified: "l2_request_modified";
    /// One request to the L2, of any kind, that found its line Exclusive.
    L2RequestExclusive: "l2_request_exclusive";
    /// One request to the L2, of any kind, that found its line Shared.
    L2RequestShared: "l2_request_shared";
    /// One request to the L2, of any kind, that found its line Invalid or absent.
    L2RequestInvalid: "l2_request_invalid";
    /// One data load at the L2 that found its line Modified.
    L2RequestLoadModified: "l2_request_load_modified";
    /// One data load at the L2 that found its line Exclusive.
    L2RequestLoadExclusive: "l2_request_load_exclusive";
    /// One data load at the L2 that found its line Shared.
    L2RequestLoadShared: "l2_request_load_shared";
    /// One data load at the L2 that found its line Invalid or absent.
    L2RequestLoadInvalid: "l2_request_load_invalid";
    /// One data store at the L2 that found its line Modified.
    L2RequestStoreModified: "l2_request_store_modified";
    /// One data store at the L2 that found its line Exclusive.
    L2RequestStoreExclusive: "l2_request_store_exclusive";
    /// One data store at the L2 that found its line Shared.
    L2RequestStoreShared: "l2_request_store_shared";
    /// One data store at the L2 that found its line Invalid or absent.
    L2RequestStoreInvalid: "l2_request_store_invalid";
    /// One instruction fetch at the L2 that found its line Modified.
    L2RequestIfetchModified: "l2_request_ifetch_modified";
    /// One instruction fetch at the L2 that found its line Exclusive.
    L2RequestIfetchExclusive: "l2_request_ifetch_exclusive";
    /// One instruction fetch at the L2 that found its line Shared.
    L2RequestIfetchShared: "l2_request_ifetch_shared";
    /// One instruction fetch at the L2 that found its line Invalid or absent.
    L2RequestIfetchInvalid: "l2_request_ifetch_invalid";
    /// One read of the L2, of code or data, that hit a Modified line.
    L2RequestReadModified: "l2_request_read_modified";
    /// One read of the L2, of code or data, that hit an Exclusive line.
    L2RequestReadExclusive: "l2_request_read_exclusive";
    /// One read of the L2, of code or data, that hit a Shared line.
    L2RequestReadShared: "l2_request_read_shared";
    /// One write of the L2, by a store that asks for a line or for the right to write it, locked or not, that
    /// hit.
    L2WriteHit: "l2_write_hit";
    /// One data load at the L2 that found a Modified line which no hardware prefetch had brought.
    L2LoadDemandModified: "l2_load_demand_modified";
    /// One data load at the L2 that found an Exclusive line which no hardware prefetch had
    /// brought.
    L2LoadDemandExclusive: "l2_load_demand_exclusive";
    /// One data load at the L2 that found a Shared line which no hardware prefetch had brought.
    L2LoadDemandShared: "l2_load_demand_shared";
    /// One data load by an instruction at the L2 that found its line Invalid or absent.
    L2LoadDemandInvalid: "l2_load_demand_invalid";
    /// One data load at the L2 that found a Modified line which a hardware prefetch had brought.
    L2LoadPrefetchedModified: "l2_load_prefetched_modified";
    /// One data load at the L2 that found an Exclusive line which a hardware prefetch had brought.
    L2LoadPrefetchedExclusive: "l2_load_prefetched_exclusive";
    /// One data load at the L2 that found a Shared line which a hardware prefetch had brought.
    L2LoadPrefetchedShared: "l2_load_prefetched_shared";
    /// One load by the hardware prefetcher at the L2 that found its line Invalid or absent.
    L2LoadPrefetchedInvalid: "l2_load_prefetched_invalid";
    /// One read of the L2's tags.
    L2TagRead: "l2_tag_read";
    /// One write of the L2's tags.
    L2TagWrite: "l2_tag_write";
    /// One block read from the L2 for an instruction fetch.
    L2ReadInstruction: "l2_read_instruction";
    /// One block read from the L2 for a load.
    L2ReadLoad: "l2_read_load";
    /// One block read from the L2 for a store.
    L2ReadStore: "l2_read_store";
    /// One block written into the L2 from the system.
    L2WriteFromSystem: "l2_write_from_system";
    /// One block written into the L2 from the data cache.
    L2WriteFromL1d: "l2_write_from_l1d";
    /// One block written from the L2.
    L2WriteFromL2: "l2_write_from_l2";
    /// One read of the L2, of code or data, that missed.
    L2MissRead: "l2_miss_read";
    /// One code read that missed the L2 and was filled from another core's L2.
    L2MissIfetchFromCache: "l2_miss_ifetch_from_cache";
    /// One code read that missed the L2 and was filled from memory.
    L2MissIfetchFromMemory: "l2_miss_ifetch_from_memory";
    /// One data read that missed the L2 and was filled from another core's L2.
    L2MissLoadFromCache: "l2_miss_load_from_cache";
    /// One data read that missed the L2 and was filled from memory.
    L2MissLoadFromMemory: "l2_miss_load_from_memory";
    /// One data write that missed the L2 and was filled from another core's L2.
    L2MissStoreFromCache: "l2_miss_store_from_cache";
    /// One data write that missed the L2 and was filled from memory.
    L2MissStoreFromMemory: "l2_miss_store_from_memory";
    /// One write of a whole line by the vector unit that missed the L2 and has nothing read, in order with
    /// other writes.
    L2MissWriteLineOrdered: "l2_miss_write_line_ordered";
    /// The same of one that need not be in order with other writes.
    L2MissWriteLineWeak: "l2_miss_write_line_weak";
    /// One line written into the L2 in state Modified. Fired beside [`Signal::L2Fill`].
    L2FillModified: "l2_fill_modified";
    /// One line allocated in the L2 in state Modified, not by a hardware prefetch.
    L2FillDemandModified: "l2_fill_demand_modified";
    /// One line allocated in the L2 in state Exclusive, not by a hardware prefetch.
    L2FillDemandExclusive: "l2_fill_demand_exclusive";
    /// One line allocated in the L2 in state Shared, not by a hardware prefetch.
    L2FillDemandShared: "l2_fill_demand_shared";
    /// One line allocated in the L2 in state Modified by a hardware prefetch.
    L2FillPrefetchedModified: "l2_fill_prefetched_modified";
    /// One line allocated in the L2 in state Exclusive by a hardware prefetch.
    L2FillPrefetchedExclusive: "l2_fill_prefetched_exclusive";
    /// One line allocated in the L2 in state Shared by a hardware prefetch.
    L2FillPrefetchedShared: "l2_fill_prefetched_shared";
    /// One line that left the L2, for any cause.
    L2Evict: "l2_evict";
    /// One Modified line that left the L2, which no hardware prefetch had brought.
    L2EvictDemandModified: "l2_evict_demand_modified";
    /// One Exclusive line that left the L2, which no hardware prefetch had brought.
    L2EvictDemandExclusive: "l2_evict_demand_exclusive";
    /// One Shared line that left the L2, which no hardware prefetch had brought.
    L2EvictDemandShared: "l2_evict_demand_shared";
    /// One Modified line that left the L2, which a hardware prefetch had brought.
    L2EvictPrefetchedModified: "l2_evict_prefetched_modified";
    /// One Exclusive line that left the L2, which a hardware prefetch had brought.
    L2EvictPrefetchedExclusive: "l2_evict_prefetched_exclusive";
    /// One Shared line that left the L2, which a hardware prefetch had brought.
    L2EvictPrefetchedShared: "l2_evict_prefetched_shared";
    /// One clock in which the L2's data bus was in use.
    L2BusBusy: "l2_bus_busy";
    /// One clock in which the L2's data bus moved data to the processor.
    L2BusBusyRead: "l2_bus_busy_read";
    /// One vprefetch0 request seen by the data cache.
    PrefetchL1: "prefetch_l1";
    /// One vprefetch0 request that missed the data cache.
    PrefetchL1Miss: "prefetch_l1_miss";
    /// One vprefetch0 request that the data cache dropped.
    PrefetchL1Dropped: "prefetch_l1_dropped";
    /// One data request that found its line on its way because of a vprefetch0.
    PrefetchL1HitInflight: "prefetch_l1_hit_inflight";
    /// One vprefetch0 request seen by the L2 that missed there.
    PrefetchL1L2Miss: "prefetch_l1_l2_miss";
    /// One vprefetch1 request seen by the data cache, dropped ones included.
    PrefetchL2SeenByL1: "prefetch_l2_seen_by_l1";
    /// One vprefetch1 request seen by the L2.
    PrefetchL2: "prefetch_l2";
    /// One vprefetch1 request that missed the L2.
    PrefetchL2Miss: "prefetch_l2_miss";
    /// One vprefetch1 request that the L2 dropped.
    PrefetchL2Dropped: "prefetch_l2_dropped";
    /// One data request that found its line on its way because of a vprefetch1.
    PrefetchL2HitInflight: "prefetch_l2_hit_inflight";
    /// One hardware prefetch that hit the L2.
    HwPrefetchL2Hit: "hw_prefetch_l2_hit";
    /// One hardware prefetch that missed the L2.
    HwPrefetchL2Miss: "hw_prefetch_l2_miss";
    /// One hardware prefetch issued towards higher addresses.
    HwPrefetchUp: "hw_prefetch_up";
    /// One hardware prefetch issued towards lower addresses.
    HwPrefetchDown: "hw_prefetch_down";
    /// One snoop from outside presented to the caches.
    SnoopL1d: "snoop_l1d";
    /// One snoop from outside that hit the data cache.
    SnoopHitL1d: "snoop_hit_l1d";
    /// One snoop from outside that hit the instruction cache.
    SnoopHitL1i: "snoop_hit_l1i";
    /// One snoop from outside that hit the L2.
    SnoopHitL2: "snoop_hit_l2";
    /// One snoop from outside that found a Modified line in the L2.
    SnoopHitmL2: "snoop_hitm_l2";
    /// One bus transaction of any kind by this processor.
    BusTransaction: "bus_transaction";
    /// One bus transaction of any kind by any agent.
    BusTransactionAny: "bus_transaction_any";
    /// One memory transaction on the bus by this processor.
    BusMemory: "bus_memory";
    /// One memory transaction on the bus by any agent.
    BusMemoryAny: "bus_memory_any";
    /// One I/O transaction on the bus by any agent.
    BusIoAny: "bus_io_any";
    /// One read for ownership on the bus by this processor.
    BusRfo: "bus_rfo";
    /// One read for ownership on the bus by any agent.
    BusRfoAny: "bus_rfo_any";
    /// One instruction fetch on the bus by this processor.
    BusIfetch: "bus_ifetch";
    /// One instruction fetch on the bus by any agent.
    BusIfetchAny: "bus_ifetch_any";
    /// One invalidation on the bus by this processor.
    BusInvalidate: "bus_invalidate";
    /// One invalidation on the bus by any agent.
    BusInvalidateAny: "bus_invalidate_any";
    /// One transaction on the bus for part of a line, by this processor.
    BusPartial: "bus_partial";
    /// One transaction on the bus for part of a line, by any agent.
    BusPartialAny: "bus_partial_any";
    /// One write on the bus of part of a line, by this processor.
    BusPartialWrite: "bus_partial_write";
    /// One write on the bus of part of a line, by any agent.
    BusPartialWriteAny: "bus_partial_write_any";
    /// One burst on the bus for a whole line, by this processor.
    BusBurst: "bus_burst";
    /// One burst on the bus for a whole line, by any agent.
    BusBurstAny: "bus_burst_any";
    /// One burst read on the bus by this processor.
    BusBurstRead: "bus_burst_read";
    /// One burst read on the bus by any agent.
    BusBurstReadAny: "bus_burst_read_any";
    /// One write-back on the bus by this processor.
    BusWriteback: "bus_writeback";
    /// One write-back on the bus by any agent.
    BusWritebackAny: "bus_writeback_any";
    /// One clock in which a bus cycle of this processor was in progress.
    BusBusy: "bus_busy";
    /// One bus clock in which this processor drove data ready.
    BusDrdy: "bus_drdy";
    /// One clock in which any agent drove data ready.
    BusDrdyAny: "bus_drdy_any";
    /// One clock in which this processor locked the bus.
    BusLock: "bus_lock";
    /// One clock in which any agent locked the bus.
    BusLockAny: "bus_lock_any";
    /// One bus clock in which this processor received data.
    BusDataReceive: "bus_data_receive";
    /// One bus clock in which this processor answered a snoop with HIT.
    BusHit: "bus_hit";
    /// One bus clock in which this processor answered a snoop with HITM.
    BusHitm: "bus_hitm";
    /// One clock in which a snoop stalled the bus.
    BusSnoopStall: "bus_snoop_stall";
    /// One stall of a pipe because an address register was written just before its use.
    StallAgi: "stall_agi";
    /// One such stall of an instruction that gathers or scatters, whose addresses come from a vector register
    /// as well. Fired beside [`Signal::StallAgi`].
    StallAgiGather: "stall_agi_gather";
    /// One stall of the vector unit because a register was not ready, in any order of reads and writes.
    StallVpuRegister: "stall_vpu_register";
    /// One clock in which the floating-point unit froze the pipeline.
    StallFpu: "stall_fpu";
    /// One clock in which the pipeline waited for a data read.
    StallLoadMiss: "stall_load_miss";
    /// One clock in which the pipeline waited for a data read of an MMX instruction. Fired beside
    /// [`Signal::StallLoadMiss`].
    StallLoadMissMmx: "stall_load_miss_mmx";
    /// One clock in which the pipeline waited because the write buffers were full.
    StallStoreBufferFull: "stall_store_buffer_full";
    /// One such clock while MMX instructions were executing. Fired beside
    /// [`Signal::StallStoreBufferFull`].
    StallStoreBufferFullMmx: "stall_store_buffer_full_mmx";
    /// One clock in which a write to an Exclusive or Modified line waited behind earlier writes.
    StallStoreEmLine: "stall_store_em_line";
    /// One such clock of a write by an MMX instruction. Fired beside [`Signal::StallStoreEmLine`].
    StallStoreEmLineMmx: "stall_store_em_line_mmx";
    /// One clock in which the pipeline waited for a refill of the data TLB.
    StallDtlbMiss: "stall_dtlb_miss";
    /// One time that the D1 stage could issue nothing because the FIFO was empty.
    StallD1FifoEmpty: "stall_d1_fifo_empty";
    /// One time that the D1 stage could issue only one instruction because the FIFO held just one.
    StallD1OneInFifo: "stall_d1_one_in_fifo";
    /// One clock in which the pipeline waited for the MMX multiplier.
    StallMmxMultiply: "stall_mmx_multiply";
    /// One clock in which a MOVD or MOVQ store waited for an earlier MMX result.
    StallMmxStoreData: "stall_mmx_store_data";
    /// One clock in which the instruction-length decoder was held up.
    StallLengthDecode: "stall_length_decode";
    /// One load held back by the store buffer.
    StallLoadBlocked: "stall_load_blocked";
    /// One clock in which the store buffer drained.
    StallStoreBufferDrain: "stall_store_buffer_drain";
    /// One clock in which an execution resource was wanting.
    StallResource: "stall_resource";
    /// One clock in which a partial register was waited for.
    StallPartialRegister: "stall_partial_register";
    /// One stall for want of a slot to rename ES.
    StallSegRenameEs: "stall_seg_rename_es";
    /// One stall for want of a slot to rename DS.
    StallSegRenameDs: "stall_seg_rename_ds";
    /// One stall for want of a slot to rename FS.
    StallSegRenameFs: "stall_seg_rename_fs";
    /// One stall for want of a slot to rename GS.
    StallSegRenameGs: "stall_seg_rename_gs";
    /// One clock in which at least one fill request waited for the L2.
    StallL2FillWait: "stall_l2_fill_wait";
    /// One clock in which the front end could not advance.
    StallFrontend: "stall_frontend";
    /// One clock spent in microcode, in which the other threads wait.
    MicrocodeBusy: "microcode_busy";
    /// One clock completed in the integer execution stage.
    EStageBusy: "e_stage_busy";
}

impl Signal {
    /// Whether it is a level: a state that lasts for cycles, each of which is an occurrence. The others
    /// happen at an instant.
    pub const fn is_level(self) -> bool {
        matches!(
            self,
            Self::CyclesUnhalted
                | Self::CyclesIntMasked
                | Self::CyclesIntMaskedPending
                | Self::LockedSpeculativeCycles
                | Self::LockedNonSpeculativeCycles
                | Self::StallNoFpuRetire
                | Self::StallLateCancel
                | Self::StallEarlyCancel
                | Self::StallLs2Full
                | Self::StallIfetch
                | Self::StallDecoderEmpty
                | Self::StallDispatchAny
                | Self::StallBranchAbort
                | Self::StallSerialize
                | Self::StallSegmentLoad
                | Self::StallRobFull
                | Self::StallRsFull
                | Self::StallFpuFull
                | Self::StallLsFull
                | Self::StallAllQuiet
                | Self::StallFarOrResync
                | Self::DividerBusy
                | Self::MissOutstandingL1d
                | Self::MissOutstandingBus
                | Self::L2BusBusy
                | Self::L2BusBusyRead
                | Self::BusBusy
                | Self::BusDrdy
                | Self::BusDrdyAny
                | Self::BusLock
                | Self::BusLockAny
                | Self::BusDataReceive
                | Self::BusHit
                | Self::BusHitm
                | Self::BusSnoopStall
                | Self::StallAgi
                | Self::StallAgiGather
                | Self::StallVpuRegister
                | Self::StallFpu
                | Self::StallLoadMiss
                | Self::StallLoadMissMmx
                | Self::StallStoreBufferFull
                | Self::StallStoreBufferFullMmx
                | Self::StallStoreEmLine
                | Self::StallStoreEmLineMmx
                | Self::StallDtlbMiss
                | Self::StallD1FifoEmpty
                | Self::StallD1OneInFifo
                | Self::StallMmxMultiply
                | Self::StallMmxStoreData
                | Self::StallLengthDecode
                | Self::StallLoadBlocked
                | Self::StallStoreBufferDrain
                | Self::StallResource
                | Self::StallPartialRegister
                | Self::StallSegRenameEs
                | Self::StallSegRenameDs
                | Self::StallSegRenameFs
                | Self::StallSegRenameGs
                | Self::StallL2FillWait
                | Self::StallFrontend
                | Self::MicrocodeBusy
                | Self::EStageBusy
        )
    }

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

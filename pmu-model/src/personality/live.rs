//! Which signals fire, by personality and tier: whether an event counts follows from it.
//!
//! What fires a signal is the execution of a tier, in so much detail as the tier has of this processor.
//! So the same signal may be live on one personality and wait for its model on another.

use crate::counts::SignalSet;
use crate::event::{EventDef, UmaskRule};
use crate::signal::Signal::{self, *};

/// In how much detail an engine executes, and so what it can tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The instruction set, and nothing of what is behind it: caches, TLBs, predictors and pipeline are
    /// not there, and the signals that need them wait for a tier that has them.
    InstructionSet,
    /// Caches, TLBs and branch predictors as well, the bus and memory behind them, and the pipeline.
    Microarchitecture,
}

/// The signals that fire on a personality, a set each tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LiveSignals {
    /// In [`Tier::InstructionSet`].
    pub instruction_set: SignalSet,
    /// In [`Tier::Microarchitecture`]: those of [`Tier::InstructionSet`], and what models tell.
    pub microarchitecture: SignalSet,
}

impl LiveSignals {
    /// Where these fire beside those of the instruction set once there are models.
    pub(super) const fn with_models(models: &[Signal]) -> Self {
        let instruction_set = SignalSet::of(INSTRUCTION_SET_SIGNALS);
        Self { instruction_set, microarchitecture: instruction_set }.and(models)
    }

    /// The same where further models fire these.
    pub(super) const fn and(mut self, models: &[Signal]) -> Self {
        let mut n = 0;
        while n < models.len() {
            self.microarchitecture.insert(models[n]);
            n += 1;
        }
        self
    }

    /// Of what models fire, that which the events of a table select: the rest is on other parts.
    pub(super) const fn selected_by(self, events: &[EventDef]) -> Self {
        let mut microarchitecture = self.instruction_set;
        let mut n = 0;
        while n < events.len() {
            let event = &events[n];
            self.keep(&mut microarchitecture, event.signals);
            let mut mask = 0;
            while mask < event.umasks.len() {
                self.keep(&mut microarchitecture, event.umasks[mask].signals);
                mask += 1;
            }
            if let UmaskRule::Routes(routes) = event.umask_rule {
                let mut route = 0;
                while route < routes.len() {
                    self.keep(&mut microarchitecture, routes[route].signals);
                    route += 1;
                }
            }
            n += 1;
        }
        Self { microarchitecture, ..self }
    }

    /// Puts those of `signals` that fire into `kept`.
    const fn keep(&self, kept: &mut SignalSet, signals: &[Signal]) {
        let mut n = 0;
        while n < signals.len() {
            if self.microarchitecture.contains(signals[n]) {
                kept.insert(signals[n]);
            }
            n += 1;
        }
    }

    /// Those of a tier.
    pub const fn of(&self, tier: Tier) -> &SignalSet {
        match tier {
            Tier::InstructionSet => &self.instruction_set,
            Tier::Microarchitecture => &self.microarchitecture,
        }
    }
}

/// What follows from the instruction set alone is the same on every processor: a signal of instructions
/// that one lacks is live there, and never occurs.
const INSTRUCTION_SET_SIGNALS: &[Signal] = &[
    InsnRetired,
    InsnRetiredClflush,
    InsnRetiredCpuid,
    InsnRetiredX87,
    InsnRetiredMmx,
    InsnRetiredSsePacked,
    InsnRetiredSseScalar,
    ExceptionTaken,
    InterruptTaken,
    BranchRetired,
    BranchTaken,
    BranchRetiredRet,
    BranchRetiredFar,
    SegLoadEs,
    SegLoadCs,
    SegLoadSs,
    SegLoadDs,
    SegLoadFs,
    SegLoadGs,
    Misaligned,
    LockedOp,
    DebugMatch0,
    DebugMatch1,
    DebugMatch2,
    DebugMatch3,
    CyclesUnhalted,
    CyclesIntMasked,
    CyclesIntMaskedPending,
    FpuOpFastFlag,
    SoftPrefetchLoad,
    SoftPrefetchStore,
    SoftPrefetchNta,
    Load,
    Store,
    LoadMmx,
    StoreMmx,
    MisalignedMmx,
    IoAccess,
    X87Flop,
    MmxEmms,
    MmxFpToMmx,
    MmxMmxToFp,
    MmxSaturating,
    MmxSaturated,
    FpAssist,
    FpAssistX87Reclass,
    FpAssistSseReclass,
    FpAssistMicrotrap,
    MmxPackedMultiply,
    MmxPackedShift,
    MmxPack,
    MmxUnpack,
    MmxPackedLogical,
    MmxPackedArithmetic,
    SsePackedArith,
    SseScalarArith,
    SsePackedSingle,
    SseScalarSingle,
    SsePackedDouble,
    SseScalarDouble,
    SsePackedSingleArith,
    SseScalarSingleArith,
    SsePackedDoubleArith,
    SseScalarDoubleArith,
    VpuOp,
    VpuElementActive,
    LoadVpu,
    StoreVpu,
];

/// What occurs on no personality, in no tier, so that zero is its count: the rest of a sum with it counts,
/// and a sum of nothing else is absent.
pub(crate) const NEVER: SignalSet = SignalSet::of(&[
    // A refill is over before anything else happens, so that no probe takes a line that is on its way. A
    // line whose dirty owner is another cache comes Shared: that cache keeps it Owned.
    L1dRefillSystemInvalid,
    L1dRefillSystemOwned,
    L1dRefillL2Invalid,
    // Caches are looked up by physical address, and have no synonyms.
    L1iInvalidatesL1i,
    L1dInvalidatesL1d,
    // The second level answers every request at once.
    L2RequestCancelled,
    // The hardware prefetcher of the Pentium M reads, and does not write.
    L2FillPrefetchedModified,
    // An XMM register of the software CPU has bits, and no type that could be another than the next
    // instruction's.
    FpAssistSseRetype,
    // No device of the PC reads or writes memory by itself, no display is refreshed from memory, and no
    // processor asks the northbridge for an atomic read-modify-write.
    SizedBlockRead32,
    SizedBlockRead64,
    SizedReadModifyWrite,
    NbRequestIoToMem,
    NbRequestIoToIo,
    IoDmaDisplayRead,
    IoDmaRead,
    IoDmaWrite,
]);

/// What the models of caches, TLBs, predictors, bus and memory fire, each on the parts that have what it
/// is about ([`LiveSignals::selected_by`]). `uarch` has a test that they do.
pub(super) const MODELS: &[Signal] = &[
    BranchMispredicted,
    BranchMispredictedTaken,
    BranchMispredictedRet,
    BranchMispredictedIndirect,
    RasPredicted,
    RasOverflow,
    FlushSmc,
    FlushProbeLoad,
    FlushProbeIfetch,
    UncachedAccess,
    WcFlush,
    WcFlushStreaming,
    L1dAccess,
    L1dMiss,
    L1dMissLocked,
    L1dRefillL2Shared,
    L1dRefillL2Exclusive,
    L1dRefillL2Owned,
    L1dRefillL2Modified,
    L1dRefillSystemShared,
    L1dRefillSystemExclusive,
    L1dRefillSystemModified,
    L1dEvictInvalid,
    L1dEvictShared,
    L1dEvictExclusive,
    L1dEvictOwned,
    L1dEvictModified,
    DtlbMissL1,
    DtlbMissLast,
    ItlbMissL1,
    ItlbMissLast,
    PageWalkData,
    PageWalkCode,
    PageWalkDataLong,
    PageWalkCodeLong,
    L1iFetch,
    L1iMiss,
    L1iRefillL2,
    L1iRefillSystem,
    L2RequestIfetch,
    L2RequestData,
    L2RequestTlb,
    L2RequestSnoop,
    L2MissIfetch,
    L2MissData,
    L2MissTlb,
    L2Fill,
    L2EvictModified,
    HwPrefetchAttempt,
    HwPrefetchCancelled,
    SystemReadExclusive,
    SystemReadModified,
    SystemReadShared,
    SystemWriteQword,
    DramPageHit,
    DramPageMiss,
    DramPageConflict,
    DramPageTableOverflow,
    DramTurnaroundChipSelect,
    DramTurnaroundReadToWrite,
    DramTurnaroundWriteToRead,
    SizedBlockWrite32,
    SizedBlockWrite64,
    NbRequestCpuToMem,
    NbRequestCpuToIo,
    CacheBlockVictim,
    CacheBlockRead,
    CacheBlockReadShared,
    CacheBlockReadModified,
    CacheBlockChangeToDirty,
    SizedNonPostedWriteByte,
    SizedNonPostedWriteDword,
    SizedPostedWriteByte,
    SizedPostedWriteDword,
    SizedReadByte,
    SizedReadDword,
    ProbeMiss,
    ProbeHitClean,
    ProbeHitDirtyKeep,
    ProbeHitDirtyCancel,
    BranchMispredictedNotTaken,
    BranchMispredictedBtbHit,
    BranchExecuted,
    BranchExecutedMispredicted,
    BranchExecutedMispredictedDecode,
    BranchExecutedConditional,
    BranchExecutedConditionalMispredicted,
    BranchExecutedIndirect,
    BranchExecutedIndirectMispredicted,
    BranchExecutedRet,
    BranchExecutedRetMispredicted,
    BranchExecutedRetMispredictedDecode,
    BranchExecutedCall,
    BranchExecutedCallMispredicted,
    BranchExecutedIndirectCall,
    BtbHit,
    BtbMiss,
    BtbHitOrTaken,
    BtbFalseEntry,
    FrontendBogusBranch,
    FrontendBaclear,
    PipelineFlush,
    FlushMispredict,
    UncachedRead,
    UncachedWrite,
    SystemRequestWt,
    SystemRequestWp,
    SystemRequestWb,
    WeakStore,
    WeakStoreMiss,
    SoftPrefetchT1,
    SoftPrefetchT2,
    SoftPrefetchNtaMiss,
    SoftPrefetchT1Miss,
    SoftPrefetchT2Miss,
    L1dMissLoad,
    L1dMissStore,
    L1dMissLoadMmx,
    L1dMissStoreMmx,
    L1dMissLoadVpu,
    L1dMissStoreVpu,
    L1dStoreHitOwned,
    L1dWriteback,
    L1iInvalidatesL1d,
    L1dInvalidatesL1i,
    MissOutstandingL1d,
    MissOutstandingBus,
    L2RequestModified,
    L2RequestExclusive,
    L2RequestShared,
    L2RequestInvalid,
    L2RequestLoadModified,
    L2RequestLoadExclusive,
    L2RequestLoadShared,
    L2RequestLoadInvalid,
    L2RequestStoreModified,
    L2RequestStoreExclusive,
    L2RequestStoreShared,
    L2RequestStoreInvalid,
    L2RequestIfetchModified,
    L2RequestIfetchExclusive,
    L2RequestIfetchShared,
    L2RequestIfetchInvalid,
    L2RequestReadModified,
    L2RequestReadExclusive,
    L2RequestReadShared,
    L2WriteHit,
    L2MissRead,
    L2MissIfetchFromCache,
    L2MissIfetchFromMemory,
    L2MissLoadFromCache,
    L2MissLoadFromMemory,
    L2MissStoreFromCache,
    L2MissStoreFromMemory,
    L2MissWriteLineOrdered,
    L2MissWriteLineWeak,
    L2LoadDemandModified,
    L2LoadDemandExclusive,
    L2LoadDemandShared,
    L2LoadDemandInvalid,
    L2LoadPrefetchedModified,
    L2LoadPrefetchedExclusive,
    L2LoadPrefetchedShared,
    L2LoadPrefetchedInvalid,
    L2BusBusy,
    L2BusBusyRead,
    StallL2FillWait,
    L2TagRead,
    L2TagWrite,
    L2ReadInstruction,
    L2ReadLoad,
    L2ReadStore,
    L2WriteFromSystem,
    L2WriteFromL1d,
    L2WriteFromL2,
    L2FillModified,
    L2FillDemandModified,
    L2FillDemandExclusive,
    L2FillDemandShared,
    L2FillPrefetchedExclusive,
    L2FillPrefetchedShared,
    L2Evict,
    L2EvictDemandModified,
    L2EvictDemandExclusive,
    L2EvictDemandShared,
    L2EvictPrefetchedModified,
    L2EvictPrefetchedExclusive,
    L2EvictPrefetchedShared,
    HwPrefetchUp,
    HwPrefetchDown,
    HwPrefetchL2Hit,
    HwPrefetchL2Miss,
    PrefetchL1,
    PrefetchL1Miss,
    PrefetchL1Dropped,
    PrefetchL1HitInflight,
    PrefetchL1L2Miss,
    PrefetchL2SeenByL1,
    PrefetchL2,
    PrefetchL2Miss,
    PrefetchL2Dropped,
    PrefetchL2HitInflight,
    SnoopL1d,
    SnoopHitL1d,
    SnoopHitL1i,
    SnoopHitL2,
    SnoopHitmL2,
    BusTransaction,
    BusTransactionAny,
    BusMemory,
    BusMemoryAny,
    BusIoAny,
    BusRfo,
    BusRfoAny,
    BusIfetch,
    BusIfetchAny,
    BusInvalidate,
    BusInvalidateAny,
    BusPartial,
    BusPartialAny,
    BusPartialWrite,
    BusPartialWriteAny,
    BusBurst,
    BusBurstAny,
    BusBurstRead,
    BusBurstReadAny,
    BusWriteback,
    BusWritebackAny,
    BusBusy,
    BusDrdy,
    BusDrdyAny,
    BusLock,
    BusLockAny,
    BusDataReceive,
    BusHit,
    BusHitm,
    BusSnoopStall,
];

/// What depends on how long execution takes, beside what pipelines fire: how often it occurs is known only
/// where a pipeline keeps the time of the models.
const TIMED: &[Signal] = &[
    BusBusy,
    BusDrdy,
    BusDrdyAny,
    BusLock,
    BusLockAny,
    MissOutstandingBus,
    MissOutstandingL1d,
    L2BusBusy,
    L2BusBusyRead,
    StallL2FillWait,
    PrefetchL1Dropped,
    PrefetchL1HitInflight,
    PrefetchL2Dropped,
    PrefetchL2HitInflight,
    DramPageHit,
    DramPageMiss,
    DramPageConflict,
    DramPageTableOverflow,
];

/// The signals of whatever personality that pipelines fire, or that depend on the time that they keep.
pub const CYCLE_DEPENDENT: SignalSet = {
    let mut set = SignalSet::of(TIMED);
    let pipelines = [IN_ORDER_PIPELINE, MULTITHREADED_PIPELINE, OUT_OF_ORDER_PIPELINE];
    let mut of = 0;
    while of < pipelines.len() {
        let mut n = 0;
        while n < pipelines[of].len() {
            set.insert(pipelines[of][n]);
            n += 1;
        }
        of += 1;
    }
    set
};

/// What the model of an in-order pipeline with two pipes fires.
pub(super) const IN_ORDER_PIPELINE: &[Signal] = &[
    PairV,
    PairVMem,
    L1dBankConflict,
    MmxPipeU,
    MmxPipeV,
    FlushMispredictWb,
    StallIfetch,
    StallAgi,
    StallFpu,
    StallLoadMiss,
    StallLoadMissMmx,
    StallStoreBufferFull,
    StallStoreBufferFullMmx,
    StallStoreEmLine,
    StallStoreEmLineMmx,
    StallDtlbMiss,
    StallD1FifoEmpty,
    StallD1OneInFifo,
    StallMmxMultiply,
    StallMmxStoreData,
];

/// What the model of an in-order core of several threads with a vector unit fires.
pub(super) const MULTITHREADED_PIPELINE: &[Signal] = &[
    PairV,
    PairVMem,
    L1dBankConflict,
    VpuOpV,
    StallAgi,
    StallAgiGather,
    StallVpuRegister,
    StallFrontend,
    MicrocodeBusy,
    EStageBusy,
];

/// What the models of out-of-order pipelines fire, each on the parts that count it.
pub(super) const OUT_OF_ORDER_PIPELINE: &[Signal] = &[
    StallIfetch,
    StallLengthDecode,
    StallDecoderEmpty,
    StallDispatchAny,
    StallRobFull,
    StallRsFull,
    StallFpuFull,
    StallLsFull,
    StallBranchAbort,
    StallSerialize,
    StallFarOrResync,
    StallSegmentLoad,
    StallAllQuiet,
    StallNoFpuRetire,
    StallResource,
    StallEarlyCancel,
    StallLateCancel,
    StallLs2Full,
    StallLoadBlocked,
    StallStoreBufferDrain,
    StallPartialRegister,
    StallSegRenameEs,
    StallSegRenameDs,
    StallSegRenameFs,
    StallSegRenameGs,
    InsnDecoded,
    BranchDecoded,
    UopRetired,
    UopEsp,
    UopSync,
    UopMmx,
    UopFusedLoadOp,
    UopFusedStore,
    Unfusion,
    UopFastpathDouble0,
    UopFastpathDouble1,
    UopFastpathDouble2,
    FpuOpAdd,
    FpuOpMul,
    FpuOpStore,
    FpuOpAddLoad,
    FpuOpMulLoad,
    FpuOpStoreLoad,
    ArithMul,
    ArithDiv,
    DividerBusy,
    X87FlopExecuted,
    FlushResync,
];

//! Of what elements the operands of an operation are.

use crate::operation::Operation;

/// How an operation reads the elements of the operand that may be swizzled or converted; that of a store,
/// the elements that it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// Single precision.
    Float,
    /// 32-bit integers.
    Integer,
    /// 64 bits: double precision or integers, which are not converted.
    Quadword,
}

impl Element {
    /// Its width in bytes.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Float | Self::Integer => 4,
            Self::Quadword => 8,
        }
    }
}

/// How many elements an operation works on, and so how many bits of a mask it looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Eight, of 64 bits; of a conversion that widens or narrows, those of either operand.
    Eight,
    /// Sixteen, of 32 bits.
    Sixteen,
}

impl Operation {
    /// The elements of its operand that may be swizzled or converted.
    pub(crate) const fn element(self) -> Element {
        use Operation as O;
        match self {
            O::Vaddpd
            | O::Vaddnpd
            | O::Vsubpd
            | O::Vsubrpd
            | O::Vmulpd
            | O::Vfmadd132pd
            | O::Vfmadd213pd
            | O::Vfmadd231pd
            | O::Vfmsub132pd
            | O::Vfmsub213pd
            | O::Vfmsub231pd
            | O::Vfnmadd132pd
            | O::Vfnmadd213pd
            | O::Vfnmadd231pd
            | O::Vfnmsub132pd
            | O::Vfnmsub213pd
            | O::Vfnmsub231pd
            | O::Vgmaxpd
            | O::Vgminpd
            | O::Vgetexppd
            | O::Vgetmantpd
            | O::Vfixupnanpd
            | O::Vrndfxpntpd
            | O::Vcmppd
            | O::Vcvtpd2ps
            | O::Vcvtfxpntpd2dq
            | O::Vcvtfxpntpd2udq
            | O::Vblendmpd
            | O::Vpblendmq
            | O::Vpandq
            | O::Vpandnq
            | O::Vporq
            | O::Vpxorq
            | O::Vmovapd
            | O::Vmovdqa64
            | O::Vmovnrapd
            | O::Vmovnrngoapd
            | O::Vbroadcastsd
            | O::Vbroadcastf64x4
            | O::Vpbroadcastq
            | O::Vbroadcasti64x4
            | O::Vloadunpackhpd
            | O::Vloadunpacklpd
            | O::Vloadunpackhq
            | O::Vloadunpacklq
            | O::Vpackstorehpd
            | O::Vpackstorelpd
            | O::Vpackstorehq
            | O::Vpackstorelq
            | O::Vgatherdpd
            | O::Vpgatherdq
            | O::Vscatterdpd
            | O::Vpscatterdq
            | O::Vgatherpf0hintdpd
            | O::Vscatterpf0hintdpd => Element::Quadword,
            O::Vpaddd
            | O::Vpsubd
            | O::Vpsubrd
            | O::Vpmulld
            | O::Vpmulhd
            | O::Vpmulhud
            | O::Vpminsd
            | O::Vpminud
            | O::Vpmaxsd
            | O::Vpmaxud
            | O::Vpmadd231d
            | O::Vpmadd233d
            | O::Vpaddsetsd
            | O::Vpadcd
            | O::Vpaddsetcd
            | O::Vpsbbd
            | O::Vpsbbrd
            | O::Vpsubsetbd
            | O::Vpsubrsetbd
            | O::Vpandd
            | O::Vpandnd
            | O::Vpord
            | O::Vpxord
            | O::Vpslld
            | O::Vpsrld
            | O::Vpsrad
            | O::Vpsllvd
            | O::Vpsrlvd
            | O::Vpsravd
            | O::Vpcmpd
            | O::Vpcmpud
            | O::Vpcmpeqd
            | O::Vpcmpgtd
            | O::Vpcmpltd
            | O::Vptestmd
            | O::Vpblendmd
            | O::Vpshufd
            | O::Vpermd
            | O::Vpermf32x4
            | O::Valignd
            | O::Vscaleps
            | O::Vfixupnanps
            | O::Vexp223ps
            | O::Vcvtdq2pd
            | O::Vcvtudq2pd
            | O::Vcvtfxpntdq2ps
            | O::Vcvtfxpntudq2ps
            | O::Vmovdqa32
            | O::Vpbroadcastd
            | O::Vbroadcasti32x4
            | O::Vloadunpackhd
            | O::Vloadunpackld
            | O::Vpackstorehd
            | O::Vpackstoreld
            | O::Vpgatherdd
            | O::Vpscatterdd => Element::Integer,
            _ => Element::Float,
        }
    }

    /// How many elements it works on.
    pub(crate) const fn lanes(self) -> Lanes {
        use Operation as O;
        match self {
            // Eight results of twice the width.
            O::Vcvtps2pd | O::Vcvtdq2pd | O::Vcvtudq2pd => Lanes::Eight,
            _ if matches!(self.element(), Element::Quadword) => Lanes::Eight,
            _ => Lanes::Sixteen,
        }
    }
}

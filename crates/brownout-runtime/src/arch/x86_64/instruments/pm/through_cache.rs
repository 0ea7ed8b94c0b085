//! Non-temporal stores as stores through the cache.
//!
//! Each record has a sequence number that a locked instruction draws. Locked instructions wait until all earlier
//! non-temporal stores have reached memory: hundreds of cycles for each store, where the target waits once at its
//! fence. Non-temporal stores to candidates are therefore made through the cache. Their values, their faults and
//! their records stay the same. They are not persistent after the target's next fence, which matters only if power
//! fails while a target is recorded on real persistent memory.

use iced_x86::{Code, Instruction};

/// The instruction that stores the same value through the cache and requires the same alignment.
pub fn through_cache(insn: &Instruction) -> Instruction {
    let code = match insn.code() {
        Code::Movnti_m32_r32 => Code::Mov_rm32_r32,
        Code::Movnti_m64_r64 => Code::Mov_rm64_r64,
        Code::Movntq_m64_mm => Code::Movq_mmm64_mm,
        Code::Movntdq_m128_xmm => Code::Movdqa_xmmm128_xmm,
        Code::Movntps_m128_xmm => Code::Movaps_xmmm128_xmm,
        Code::Movntpd_m128_xmm => Code::Movapd_xmmm128_xmm,
        Code::VEX_Vmovntdq_m128_xmm => Code::VEX_Vmovdqa_xmmm128_xmm,
        Code::VEX_Vmovntdq_m256_ymm => Code::VEX_Vmovdqa_ymmm256_ymm,
        Code::VEX_Vmovntps_m128_xmm => Code::VEX_Vmovaps_xmmm128_xmm,
        Code::VEX_Vmovntps_m256_ymm => Code::VEX_Vmovaps_ymmm256_ymm,
        Code::VEX_Vmovntpd_m128_xmm => Code::VEX_Vmovapd_xmmm128_xmm,
        Code::VEX_Vmovntpd_m256_ymm => Code::VEX_Vmovapd_ymmm256_ymm,
        Code::EVEX_Vmovntdq_m128_xmm => Code::EVEX_Vmovdqa64_xmmm128_k1z_xmm,
        Code::EVEX_Vmovntdq_m256_ymm => Code::EVEX_Vmovdqa64_ymmm256_k1z_ymm,
        Code::EVEX_Vmovntdq_m512_zmm => Code::EVEX_Vmovdqa64_zmmm512_k1z_zmm,
        Code::EVEX_Vmovntps_m128_xmm => Code::EVEX_Vmovaps_xmmm128_k1z_xmm,
        Code::EVEX_Vmovntps_m256_ymm => Code::EVEX_Vmovaps_ymmm256_k1z_ymm,
        Code::EVEX_Vmovntps_m512_zmm => Code::EVEX_Vmovaps_zmmm512_k1z_zmm,
        Code::EVEX_Vmovntpd_m128_xmm => Code::EVEX_Vmovapd_xmmm128_k1z_xmm,
        Code::EVEX_Vmovntpd_m256_ymm => Code::EVEX_Vmovapd_ymmm256_k1z_ymm,
        Code::EVEX_Vmovntpd_m512_zmm => Code::EVEX_Vmovapd_zmmm512_k1z_zmm,
        other => other,
    };
    let mut changed = *insn;
    changed.set_code(code);
    changed
}

//! The instructions that replay has to model in all forms that cases have: one of them that is taken for what it was is a failure.
//!
//! Others may be modelled, too, for some operands: shifts and permutations whose distance or order is known, for example.

use iced_x86::Code;

/// Whether all forms of an instruction are modelled.
pub fn is_modelled(code: Code) -> bool {
    let name = format!("{:?}", code.mnemonic()).to_lowercase();
    MODELLED.split_whitespace().any(|known| known == name)
}

const MODELLED: &str = "
    adc adcx add adox and andn andnpd andnps andpd andps bextr blendpd blendps blsi blsmsk blsr bsf bsr bswap bzhi cbw
    cdq cdqe clc cmc cmova cmovae cmovb cmovbe cmove cmovg cmovge cmovl cmovle cmovne cmovno cmovnp cmovns cmovo cmovp
    cmovs cmp cmpsb cmpsq cmpsw cmpxchg cqo crc32 cwd cwde dec div idiv imul inc ja jae jb jbe je jg jge jl jle jne jno
    jnp jns jo jp js kaddb kaddd kaddq kaddw kandb kandd kandnb kandnd kandnq kandnw kandq kandw kmovb kmovd kmovq kmovw
    knotb knotd knotq knotw korb kord korq kortestb kortestd kortestq kortestw korw kshiftlb kshiftld kshiftlq kshiftlw
    kshiftrb kshiftrd kshiftrq kshiftrw ktestb ktestd ktestq ktestw kunpckbw kunpckdq kunpckwd kxnorb kxnord kxnorq
    kxnorw kxorb kxord kxorq kxorw lddqu lea leave lodsb lodsd lodsq lodsw lzcnt mov movapd movaps movbe movd movddup
    movdqa movdqu movhlps movhpd movhps movlhps movlpd movlps movmskpd movmskps movntdq movntdqa movnti movntps movq
    movsb movsd movshdup movsldup movsq movss movsw movsx movsxd movupd movups movzx mul mulx neg not or orpd orps pabsb
    pabsd pabsw packssdw packsswb packusdw packuswb paddb paddd paddq paddsb paddsw paddusb paddusw paddw palignr pand
    pandn pavgb pavgw pblendvb pblendw pcmpeqb pcmpeqd pcmpeqq pcmpeqw pcmpestri pcmpestrm
    pcmpgtb pcmpgtd pcmpgtq pcmpgtw pcmpistri pcmpistrm pextrb pextrd
    pextrq pextrw phaddd phaddw phsubd phsubw pinsrb pinsrd pinsrq pinsrw pmaddwd pmaxsb pmaxsd pmaxsw pmaxub pmaxud
    pmaxuw pminsb pminsd pminsw pminub pminud pminuw pmovmskb pmovsxbd pmovsxbq pmovsxbw pmovsxdq pmovsxwd pmovsxwq
    pmovzxbd pmovzxbq pmovzxbw pmovzxdq pmovzxwd pmovzxwq pmuldq pmulhuw pmulhw pmulld pmullw pmuludq pop popcnt por
    prefetcht0 psadbw pshufd pshufhw pshuflw pslldq psrldq psubb psubd psubq psubsb psubsw psubusb psubusw psubw ptest
    punpckhbw punpckhdq punpckhqdq punpckhwd punpcklbw punpckldq punpcklqdq punpcklwd push pxor rol ror rorx sal sar
    sarx sbb scasb scasd scasq scasw seta setae setb setbe sete setg setge setl setle setne setno setnp setns seto setp
    sets shl shlx shr shrx shufps stc stosb stosd stosq stosw sub test tzcnt unpckhpd unpckhps unpcklpd unpcklps vandnpd
    vandnps vandpd vandps vblendpd vblendps vbroadcastf128 vbroadcasti128 vbroadcastsd vbroadcastss vextractf128
    vextracti128 vextracti32x4 vextracti32x8 vextracti64x4 vinsertf128 vinserti128 vinserti32x4 vinserti32x8
    vinserti64x2 vinserti64x4 vlddqu vmovapd vmovaps vmovd vmovddup vmovdqa vmovdqa32 vmovdqa64 vmovdqu vmovdqu32
    vmovdqu8 vmovhlps vmovhpd vmovhps vmovlhps vmovlpd vmovlps vmovmskpd vmovmskps vmovntdq vmovntdqa vmovntps vmovq
    vmovshdup vmovsldup vmovupd vmovups vorpd vorps vpabsb vpabsd vpabsq vpabsw vpackssdw vpacksswb vpackusdw vpackuswb
    vpaddb vpaddd vpaddq vpaddsb vpaddsw vpaddusb vpaddusw vpaddw vpalignr vpand vpandd vpandn vpandnd vpandnq vpandq
    vpavgb vpavgw vpblendd vpblendvb vpblendw vpcmpb vpcmpd vpcmpeqb vpcmpeqd vpcmpeqq vpcmpeqw vpcmpestri vpcmpestrm vpcmpistri
    vpcmpistrm vpcmpgtb vpcmpgtd
    vpcmpgtq vpcmpgtw vpcmpq vpcmpub vpcmpud vpcmpuq vpcmpuw vpcmpw vpextrb vpextrd vpextrq vpextrw vphaddd vphaddw
    vphsubd vphsubw vpinsrb vpinsrd vpinsrq vpinsrw vpmaddwd vpmaxsb vpmaxsd vpmaxsq vpmaxsw vpmaxub vpmaxud vpmaxuq
    vpmaxuw vpminsb vpminsd vpminsq vpminsw vpminub vpminud vpminuq vpminuw vpmovb2m vpmovd2m vpmovmskb vpmovq2m
    vpmovsxbd vpmovsxbq vpmovsxbw vpmovsxdq vpmovsxwd vpmovsxwq vpmovw2m vpmovzxbd vpmovzxbq vpmovzxbw vpmovzxdq
    vpmovzxwd vpmovzxwq vpmuldq vpmulhuw vpmulhw vpmulld vpmullq vpmullw vpmuludq vpor vpord vporq vpsadbw vpshufd
    vpshufhw vpshuflw vpslldq vpsrldq vpsubb vpsubd vpsubq vpsubsb vpsubsw vpsubusb vpsubusw vpsubw vpternlogd
    vpternlogq vptest vptestmb vptestmd vptestmq vptestmw vptestnmb vptestnmd vptestnmq vptestnmw vpunpckhbw vpunpckhdq
    vpunpckhqdq vpunpckhwd vpunpcklbw vpunpckldq vpunpcklqdq vpunpcklwd vpxor vpxord vpxorq vshufps vunpckhpd vunpckhps
    vunpcklpd vunpcklps vxorpd vxorps vzeroall vzeroupper xadd xchg xor xorpd xorps
";

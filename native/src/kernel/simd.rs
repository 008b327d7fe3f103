//! The same plain Rust, compiled twice: for any machine and for AVX2 with FMA.

/// Define a function whose body the compiler also vectorises for AVX2, which is
/// taken at run time where the machine has it. Nothing in the body changes: no
/// product and sum are fused, so both versions give the same bits.
macro_rules! vectorised {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?)
        $(-> $result:ty)? $body:block) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn portable($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            if std::is_x86_feature_detected!("avx2") {
                #[target_feature(enable = "avx2")]
                fn wide($($argument: $type),*) $(-> $result)? {
                    portable($($argument),*)
                }
                // SAFETY: avx2 was detected.
                return unsafe { wide($($argument),*) };
            }
            portable($($argument),*)
        }
    };
}

pub(crate) use vectorised;

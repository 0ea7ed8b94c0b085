//! What a register can hold: a number, an address in the frame, a pointer to an object of a known type, or something that is only known
//! to be the same as elsewhere.
//!
//! Offsets are congruences: `offset` plus any multiple of `stride`, so that loops and array accesses keep their type.

use crate::types::DataTypeId;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    Number,
    /// The stack pointer before the call of the function.
    Frame,
    /// The address of an object.
    Object(DataTypeId),
    /// The offset of an object in its persistent pool.
    Identifier(DataTypeId),
    /// What the instruction at this address sets, or is joined there, multiplied by a factor. At the first instruction of the
    /// function: what its caller sets.
    Unknown {
        at: u64,
        register: u16,
        factor: i64,
    },
}

impl Base {
    pub(crate) fn unknown(at: u64, register: u16) -> Self {
        Self::Unknown {
            at,
            register,
            factor: 1,
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    pub(crate) base: Base,
    pub(crate) offset: i64,
    /// 0 if the offset is exact.
    pub(crate) stride: u64,
}

impl Value {
    pub(crate) fn of(base: Base) -> Self {
        Self {
            base,
            offset: 0,
            stride: 0,
        }
    }

    pub(crate) fn constant(offset: i64) -> Self {
        Self {
            offset,
            ..Self::of(Base::Number)
        }
    }

    /// Any multiple of a number.
    pub(crate) fn multiple(of: i64) -> Self {
        Self {
            stride: of.unsigned_abs(),
            ..Self::of(Base::Number)
        }
    }

    /// The number, if it is one and known.
    pub(crate) fn known(self) -> Option<i64> {
        (self.base == Base::Number && self.stride == 0).then_some(self.offset)
    }

    /// The offset in the frame, if it is known.
    pub(crate) fn in_frame(self) -> Option<i64> {
        (self.base == Base::Frame && self.stride == 0).then_some(self.offset)
    }

    pub(crate) fn has_type(self) -> bool {
        matches!(self.base, Base::Object(_) | Base::Identifier(_))
    }

    pub(crate) fn plus(self, constant: i64) -> Self {
        Self {
            offset: self.offset.wrapping_add(constant),
            ..self
        }
    }

    pub(crate) fn times(self, factor: i64) -> Self {
        match (self.base, factor) {
            (_, 1) => self,
            (Base::Number, _) => Self {
                base: Base::Number,
                offset: self.offset.wrapping_mul(factor),
                stride: self.stride.wrapping_mul(factor.unsigned_abs()),
            },
            (
                Base::Unknown {
                    at,
                    register,
                    factor: by,
                },
                _,
            ) => Self {
                base: Base::Unknown {
                    at,
                    register,
                    factor: by.wrapping_mul(factor),
                },
                offset: self.offset.wrapping_mul(factor),
                stride: self.stride.wrapping_mul(factor.unsigned_abs()),
            },
            _ => Self::multiple(factor),
        }
    }

    /// What can be added to an address without making it another object's: the distance between elements.
    fn as_index(self) -> u64 {
        match self.base {
            Base::Number => self.stride,
            Base::Unknown { factor, .. } => gcd(self.stride, factor.unsigned_abs()),
            _ => 1,
        }
    }

    /// The sum of two values. Of two unknown ones, the first is taken for the address and the second for an index.
    pub(crate) fn add(self, other: Self) -> Self {
        use Base::{Frame, Identifier, Number, Object, Unknown};
        let with = |base, stride| Self {
            base,
            offset: self.offset.wrapping_add(other.offset),
            stride,
        };
        let indexed =
            |address: Self, index: Self| with(address.base, gcd(address.stride, index.as_index()));
        match (self.base, other.base) {
            (_, Number) => indexed(self, other),
            (Number, _) => indexed(other, self),
            (
                Unknown {
                    at,
                    register,
                    factor,
                },
                Unknown {
                    at: other_at,
                    register: other_register,
                    factor: by,
                },
            ) if (at, register) == (other_at, other_register) => {
                let factor = factor.wrapping_add(by);
                let base = Unknown {
                    at,
                    register,
                    factor,
                };
                with(base, gcd(self.stride, other.stride))
            }
            // The address of a pool and an offset in it.
            (Identifier(ty), Unknown { factor: 1, .. } | Object(_))
            | (Unknown { factor: 1, .. } | Object(_), Identifier(ty)) => {
                with(Object(ty), gcd(self.stride, other.stride))
            }
            (Object(_) | Frame, _)
            | (Unknown { factor: 1, .. } | Identifier(_), Unknown { .. }) => indexed(self, other),
            (_, Object(_) | Frame)
            | (Unknown { .. }, Unknown { factor: 1, .. } | Identifier(_)) => indexed(other, self),
            _ => with(Number, gcd(self.as_index(), other.as_index())),
        }
    }

    /// What is known of a value that is `self` on one path and `other` on another, where both meet.
    pub(crate) fn join(self, other: Self, at: u64, register: u16) -> Self {
        if self == other {
            return self;
        }
        if self.base == other.base {
            let apart = self.offset.abs_diff(other.offset);
            return Self {
                stride: gcd(gcd(self.stride, other.stride), apart),
                ..self
            };
        }
        match (self.has_type(), other.has_type()) {
            (true, _) => self,
            (false, true) => other,
            // A null pointer says nothing about the other value.
            _ if self.known() == Some(0) => other,
            _ if other.known() == Some(0) => self,
            _ => Self::of(Base::unknown(at, register)),
        }
    }
}

/// The greatest common divisor; that of 0 and a number is the number.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(register: u16) -> Value {
        Value::of(Base::unknown(0, register))
    }

    #[test]
    fn an_index_keeps_the_base_and_gives_a_stride() {
        let element = origin(5).add(origin(4).times(24)).plus(8);
        let (base, offset, stride) = (origin(5).base, 8, 24);
        let expected = Value {
            base,
            offset,
            stride,
        };
        assert_eq!(element, expected);
        // (4 · i + i) · 8
        let scaled = origin(1).times(4).add(origin(1)).times(8);
        assert_eq!(origin(5).add(scaled).stride, 40);
        let two = scaled.add(origin(2).times(16));
        assert_eq!(two, Value::multiple(8));
    }

    #[test]
    fn a_loop_over_an_array_has_the_stride_of_its_elements() {
        let start = origin(5).plus(16);
        let joined = start.join(start.plus(48), 0x10, 5);
        assert_eq!((joined.offset, joined.stride), (16, 48));
        let again = joined.join(joined.plus(48), 0x10, 5);
        assert_eq!(again, joined);
        assert_eq!(joined.join(start.plus(72), 0x10, 5).stride, 24);
    }

    #[test]
    fn values_that_differ_on_two_paths_are_one_unknown_value() {
        let joined = origin(1).join(origin(2), 0x40, 3);
        let at_join = Value::of(Base::unknown(0x40, 3));
        assert_eq!(joined, at_join);
        assert_eq!(Value::constant(0).join(origin(2), 0x40, 3), origin(2));
    }
}

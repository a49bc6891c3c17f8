//! JSON straight into its type, in one pass, with a bound on how many values it may hold. A list is never taken for an
//! object: serde's own derive takes one, with the fields in their order, and the API does not.
//!
//! Depth is bounded by serde_json (128), bytes by the reader of the body. Values that serde buffers (untagged enums)
//! are counted too; structs inside of such an enum refuse lists by themselves.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::cell::Cell;
use std::fmt;

/// A request with a hundred thousand variables is odd and allowed; memory for millions of empty values is neither.
pub const MOST_VALUES: usize = 200_000;

#[derive(Debug)]
pub enum Refusal {
    /// Not JSON, or not of this type: where, and why.
    Wrong {
        path: String,
        source: serde_json::Error,
    },
    TooManyValues,
}

pub const LIST_FOR_OBJECT: &str = "it is a list, and is to be an object";

pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let left = Cell::new(MOST_VALUES);
    let mut json = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(Strict::new(&mut json, &left));
    let wrong = |path: String, source| match left.get() {
        0 => Refusal::TooManyValues,
        _ => Refusal::Wrong { path, source },
    };
    let value = parsed.map_err(|error| wrong(error.path().to_string(), error.into_inner()))?;
    json.end().map_err(|source| wrong(".".into(), source))?;
    Ok(value)
}

/// For a body that another parser reads: checks that it is within the bounds. Keeps nothing of it.
pub fn check(body: &[u8]) -> Result<(), Refusal> {
    parse::<IgnoredAny>(body).map(drop)
}

/// A part of serde's conversation, with the number of values that may still come.
struct Strict<'c, T> {
    inner: T,
    left: &'c Cell<usize>,
    /// The value is a struct: only an object will do.
    object: bool,
}

impl<'c, T> Strict<'c, T> {
    fn new(inner: T, left: &'c Cell<usize>) -> Strict<'c, T> {
        Strict { inner, left, object: false }
    }

    fn wrap<U>(&self, inner: U) -> Strict<'c, U> {
        Strict::new(inner, self.left)
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let left = self.left.get().saturating_sub(1);
        self.left.set(left);
        if left == 0 { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

macro_rules! forward_deserialize {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.wrap(visitor);
            self.inner.$method(visitor)
        }
    )* };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    forward_deserialize! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier
    }

    /// The parser would skip ignored values silently, and they would not be counted.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor);
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor);
        self.inner.deserialize_tuple(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor);
        self.inner.deserialize_tuple_struct(name, length, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Strict { object: true, ..self.wrap(visitor) };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor);
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! forward_visit {
    ($($method:ident: $type:ty)*) => { $(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )* };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    forward_visit! {
        visit_bool: bool visit_i8: i8 visit_i16: i16 visit_i32: i32 visit_i64: i64 visit_i128: i128
        visit_u8: u8 visit_u16: u16 visit_u32: u32 visit_u64: u64 visit_u128: u128 visit_f32: f32
        visit_f64: f64 visit_char: char visit_str: &str visit_borrowed_str: &'de str visit_string: String
        visit_bytes: &[u8] visit_borrowed_bytes: &'de [u8] visit_byte_buf: Vec<u8>
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let deserializer = self.wrap(deserializer);
        self.inner.visit_some(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let deserializer = self.wrap(deserializer);
        self.inner.visit_newtype_struct(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<V::Value, A::Error> {
        if self.object {
            return Err(A::Error::custom(LIST_FOR_OBJECT));
        }
        let values = self.wrap(values);
        self.inner.visit_seq(values)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let entries = self.wrap(entries);
        self.inner.visit_map(entries)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let variant = self.wrap(variant);
        self.inner.visit_enum(variant)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let deserializer = self.wrap(deserializer);
        self.inner.deserialize(deserializer)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.count()?;
        let seed = self.wrap(seed);
        self.inner.next_element_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.count()?;
        let seed = self.wrap(seed);
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.wrap(seed);
        self.inner.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'c, A: EnumAccess<'de>> EnumAccess<'de> for Strict<'c, A> {
    type Error = A::Error;
    type Variant = Strict<'c, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let seed = self.wrap(seed);
        let left = self.left;
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Strict::new(variant, left)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.wrap(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.wrap(visitor);
        self.inner.tuple_variant(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = Strict { object: true, ..self.wrap(visitor) };
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::{CreateSandbox, JobSpec, StartExec};
    use serde_json::{Value, json};

    #[test]
    fn what_is_read_is_what_serde_reads() {
        let bodies = [
            json!({"argv": ["a", "b"], "env": {"A": "1"}, "terminal": {"rows": 1, "columns": 2}}),
            json!({"command": "x", "timeout_seconds": 1.5, "background": true}),
        ];
        for body in bodies {
            let text = body.to_string();
            let plain: StartExec = serde_json::from_str(&text).expect("valid");
            let strict: StartExec = parse(text.as_bytes()).expect("valid");
            assert_eq!(
                serde_json::to_value(strict).expect("json"),
                serde_json::to_value(plain).expect("json")
            );
        }
        let any: Value = parse(br#"{"a": [1, -2, 3.5, null, true, "x", {"b": []}]}"#).expect("valid");
        assert_eq!(any["a"][6]["b"], json!([]));
    }

    #[test]
    fn a_list_is_no_object_wherever_it_is() {
        let places = [(r#"{"limits": [1]}"#, "limits"), (r#"{"volumes": [["a", "/x"]]}"#, "volumes[0]")];
        for (body, place) in places {
            match parse::<CreateSandbox>(body.as_bytes()) {
                Err(Refusal::Wrong { path, source }) => {
                    assert_eq!(path, place);
                    assert!(source.to_string().starts_with(LIST_FOR_OBJECT), "{source}");
                }
                other => panic!("{:?}", other.err()),
            }
        }
        // Inside of an untagged enum, which serde reads from a buffer.
        let body = r#"{"command": "true", "array": [[["a"], {}]]}"#;
        assert!(parse::<JobSpec>(body.as_bytes()).is_err());
        parse::<JobSpec>(br#"{"command": "true", "array": [{"args": ["a"], "env": {}}]}"#).expect("valid");
    }

    #[test]
    fn values_are_counted_and_depth_is_bounded() {
        let many = |count: usize| format!(r#"{{"argv": [{}]}}"#, vec!["\"\""; count].join(","));
        parse::<StartExec>(many(MOST_VALUES / 2).as_bytes()).expect("within the bound");
        let refused = parse::<StartExec>(many(MOST_VALUES + 1).as_bytes());
        assert!(matches!(refused, Err(Refusal::TooManyValues)));
        // Also where serde would only skip them, or buffer them.
        let nested = format!("{{\"array\": [{}]}}", vec!["[]"; MOST_VALUES + 1].join(","));
        assert!(matches!(parse::<JobSpec>(nested.as_bytes()), Err(Refusal::TooManyValues)));
        assert!(matches!(check(nested.as_bytes()), Err(Refusal::TooManyValues)));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(parse::<Value>(deep.as_bytes()), Err(Refusal::Wrong { .. })));
    }
}

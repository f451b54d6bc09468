//! From the tree to the settings types: a serde deserializer that knows the place of every value.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::SpecError;
use super::layer::chosen;
use super::path::join;
use super::refuse::ReadError;
use super::tree::{Content, Entry, Node, Tree};

impl Tree {
    /// The value that this tree describes.
    ///
    /// Refused is what the type refuses, and any value that the type left unread.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, SpecError> {
        self.resolve().map(|(value, _)| value)
    }

    /// The value that this tree describes, and the tree without the variants of lower layers that
    /// were not chosen: what [`Tree::leaves`] and [`Tree::to_toml`] should show.
    pub fn resolve<T: DeserializeOwned>(&self) -> Result<(T, Tree), SpecError> {
        let record = Record::default();
        let reader = Reader { node: &self.root, path: &self.prefix, record: &record, bare: false };
        let value = T::deserialize(reader).map_err(|e| e.place(&self.root, &self.prefix))?;
        let mut tree = self.clone();
        record.settle(&mut tree.root, &self.prefix)?;
        Ok((value, tree))
    }
}

/// The results of reading, by dotted key.
#[derive(Default)]
struct Record {
    read: RefCell<BTreeSet<String>>,
    chosen: RefCell<BTreeMap<String, String>>,
}

impl Record {
    /// Drops what was not chosen below `node` and refuses what was not read.
    fn settle(&self, node: &mut Node, path: &str) -> Result<(), SpecError> {
        let place = node.key.clone();
        match &mut node.content {
            Content::Table(entries) if !entries.is_empty() => {
                if let Some(name) = self.chosen.borrow().get(path) {
                    let before = entries.len();
                    entries.retain(|entry| entry.name == *name);
                    let layer = entries.first().map_or(0, |entry| entry.node.layer);
                    // The origin of a choice does not apply to the choice that replaced it.
                    if entries.len() < before && node.origin_layer < layer {
                        node.origin = None;
                    }
                    node.choice = true;
                }
                entries
                    .iter_mut()
                    .try_for_each(|entry| self.settle(&mut entry.node, &join(path, &entry.name)))
            }
            Content::List(elements) if !elements.is_empty() => {
                let mut elements = elements.iter_mut().enumerate();
                elements
                    .try_for_each(|(index, node)| self.settle(node, &format!("{path}[{index}]")))
            }
            _ if self.read.borrow().contains(path) => Ok(()),
            _ => Err(SpecError::new(path, format!("no part reads {path}"))
                .value(node.text())
                .at(&place)),
        }
    }
}

/// Reads one node.
#[derive(Clone, Copy)]
struct Reader<'t> {
    node: &'t Node,
    path: &'t str,
    record: &'t Record,
    /// The node is the name of a variant without settings, which are read as an empty table.
    bare: bool,
}

impl<'t> Reader<'t> {
    fn below<'a>(&self, node: &'a Node, path: &'a str) -> Reader<'a>
    where
        't: 'a,
    {
        Reader { node, path, record: self.record, bare: false }
    }

    fn mark(&self) {
        self.record.read.borrow_mut().insert(self.path.to_owned());
    }

    fn entries(&self) -> &'t [Entry] {
        match &self.node.content {
            Content::Table(entries) if !self.bare => entries,
            _ => &[],
        }
    }

    fn visit_any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.mark();
        if self.bare {
            return visitor.visit_map(Table { reader: self, entries: [].iter(), value: None });
        }
        match &self.node.content {
            Content::Text(text) => visitor.visit_str(text),
            Content::Whole(number) => match u64::try_from(*number) {
                Ok(number) => visitor.visit_u64(number),
                // Within i64::MIN..=u64::MAX, so what is negative fits.
                Err(_) => visitor.visit_i64(*number as i64),
            },
            Content::Number(number) => visitor.visit_f64(*number),
            Content::Flag(flag) => visitor.visit_bool(*flag),
            Content::List(elements) => {
                visitor.visit_seq(List { reader: self, elements: elements.iter().enumerate() })
            }
            Content::Table(entries) => {
                visitor.visit_map(Table { reader: self, entries: entries.iter(), value: None })
            }
        }
    }

    fn visit_enum<'de, V: Visitor<'de>>(
        self,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.mark();
        let entries = match &self.node.content {
            Content::Text(name) => {
                return visitor.visit_enum(Choice { reader: self, name, node: None });
            }
            Content::Table(entries) => entries,
            _ => return Err(ReadError::no_choice(variants)),
        };
        let unknown = entries.iter().find(|entry| !variants.contains(&entry.name.as_str()));
        if let Some(entry) = unknown {
            let error: ReadError = de::Error::unknown_variant(&entry.name, variants);
            return Err(error.place_choice(&entry.node.key, self.path).into());
        }
        let Some(entry) = chosen(entries, self.path)? else {
            return Err(ReadError::no_choice(variants));
        };
        let mut record = self.record.chosen.borrow_mut();
        record.insert(self.path.to_owned(), entry.name.clone());
        drop(record);
        visitor.visit_enum(Choice { reader: self, name: &entry.name, node: Some(&entry.node) })
    }
}

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.visit_any(visitor).map_err(|e| e.place(self.node, self.path).into())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let result = visitor.visit_newtype_struct(self);
        result.map_err(|e| e.place(self.node, self.path).into())
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.visit_enum(variants, visitor).map_err(|e| e.place(self.node, self.path).into())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        // Not marked: what a type ignores, no part reads.
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

struct Table<'t> {
    reader: Reader<'t>,
    entries: std::slice::Iter<'t, Entry>,
    value: Option<&'t Entry>,
}

impl<'de> MapAccess<'de> for Table<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        self.value = self.entries.next();
        let Some(entry) = self.value else { return Ok(None) };
        let key = seed.deserialize(StrDeserializer::<ReadError>::new(&entry.name));
        key.map(Some).map_err(|e| e.place_key(&entry.node.key, self.reader.path).into())
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some(entry) = self.value.take() else {
            return Err(de::Error::custom("a value was read before its key"));
        };
        let path = join(self.reader.path, &entry.name);
        let value = seed.deserialize(self.reader.below(&entry.node, &path));
        value.map_err(|e| e.place(&entry.node, &path).into())
    }
}

struct List<'t> {
    reader: Reader<'t>,
    elements: std::iter::Enumerate<std::slice::Iter<'t, Node>>,
}

impl<'de> SeqAccess<'de> for List<'_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some((index, node)) = self.elements.next() else { return Ok(None) };
        let path = format!("{}[{index}]", self.reader.path);
        let value = seed.deserialize(self.reader.below(node, &path));
        value.map(Some).map_err(|e| e.place(node, &path).into())
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len())
    }
}

/// A variant: its name, and its settings unless the name is alone.
struct Choice<'t> {
    reader: Reader<'t>,
    name: &'t str,
    node: Option<&'t Node>,
}

impl Choice<'_> {
    fn read<R>(
        &self,
        read: impl FnOnce(Reader<'_>) -> Result<R, ReadError>,
    ) -> Result<R, ReadError> {
        let path = join(self.reader.path, self.name);
        let (node, reader) = match self.node {
            Some(node) => (node, self.reader.below(node, &path)),
            None => (self.reader.node, Reader { path: &path, bare: true, ..self.reader }),
        };
        reader.mark();
        read(reader).map_err(|e| e.place(node, &path).into())
    }
}

impl<'de> EnumAccess<'de> for Choice<'_> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ReadError> {
        let variant = seed.deserialize(StrDeserializer::<ReadError>::new(self.name));
        let place = self.node.map_or(&self.reader.node.place, |node| &node.key);
        let variant = variant.map_err(|e| e.place_choice(place, self.reader.path))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        self.read(|reader| match reader.entries().first() {
            Some(entry) => Err(ReadError::takes_nothing(&entry.name)
                .place_key(&entry.node.key, reader.path)
                .into()),
            None => Ok(()),
        })
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        self.read(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.read(|reader| reader.visit_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.read(|reader| reader.visit_any(visitor))
    }
}

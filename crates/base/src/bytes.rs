//! Big-endian reading and writing over plain byte slices, without copies.

/// Reading went past the end of the bytes, or a length in them was negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOfBytes;

impl std::fmt::Display for EndOfBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the message ends before its declared length")
    }
}

impl std::error::Error for EndOfBytes {}

/// The bytes as text, if they are UTF-8. Costs a fraction of what the standard check does for
/// short ASCII, which is what names and most values are.
#[inline]
pub fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() <= SHORT_BYTES && is_short_ascii(bytes) {
        // SAFETY: no byte has its high bit set, so all are ASCII, which is UTF-8.
        return Some(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes).ok()
}

/// The most bytes that `is_short_ascii` looks at.
const SHORT_BYTES: usize = 32;

/// Whether no byte has its high bit set, of bytes whose number is a word's to four words': by
/// words that may overlap.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk));
    let length = bytes.len();
    let Some(last) = length.checked_sub(8).and_then(word) else {
        return bytes.iter().fold(0, |bits, byte| bits | byte) < 0x80;
    };
    let mut bits = last;
    let mut at = 0;
    while let (true, Some(word)) = (at + 8 < length, word(at)) {
        bits |= word;
        at += 8;
    }
    bits & HIGH_BITS == 0
}

/// A cursor over borrowed bytes; every read is checked and advances.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

macro_rules! read_number {
    ($name:ident, $type:ty, $what:expr) => {
        #[doc = concat!("Reads ", $what, ", big-endian.")]
        #[inline]
        pub fn $name(&mut self) -> Result<$type, EndOfBytes> {
            let (head, rest) = self.rest.split_first_chunk().ok_or(EndOfBytes)?;
            self.rest = rest;
            Ok(<$type>::from_be_bytes(*head))
        }
    };
}

impl<'a> ByteReader<'a> {
    /// A cursor at the first of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        ByteReader { rest: bytes }
    }

    /// What has not been read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Number of bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    read_number!(u8, u8, "one byte");
    read_number!(i8, i8, "one signed byte");
    read_number!(i16, i16, "a 16-bit integer");
    read_number!(i32, i32, "a 32-bit integer");
    read_number!(u32, u32, "an unsigned 32-bit integer");
    read_number!(i64, i64, "a 64-bit integer");
    read_number!(u64, u64, "an unsigned 64-bit integer");
    read_number!(i128, i128, "a 128-bit integer");
    read_number!(f64, f64, "an IEEE 754 double");

    /// Takes the next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], EndOfBytes> {
        if count > self.rest.len() {
            return Err(EndOfBytes);
        }
        let (head, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(head)
    }

    /// Reads a whole number of seven bits a byte, the lowest first.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, EndOfBytes> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(EndOfBytes);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(EndOfBytes)
    }

    /// Takes bytes after a length of [`ByteReader::varint`].
    #[inline]
    pub fn counted(&mut self) -> Result<&'a [u8], EndOfBytes> {
        let length = usize::try_from(self.varint()?).map_err(|_| EndOfBytes)?;
        self.take(length)
    }

    /// Takes bytes after a 32-bit length; length -1 is `None`, other negative ones an error.
    #[inline]
    pub fn sized(&mut self) -> Result<Option<&'a [u8]>, EndOfBytes> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| EndOfBytes)?;
                self.take(length).map(Some)
            }
        }
    }
}

/// Big-endian appending to a byte vector.
pub trait ByteWriter {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends one signed byte.
    fn put_i8(&mut self, value: i8);
    /// Appends a 16-bit integer.
    fn put_i16(&mut self, value: i16);
    /// Appends a 32-bit integer.
    fn put_i32(&mut self, value: i32);
    /// Appends a 64-bit integer.
    fn put_i64(&mut self, value: i64);
    /// Appends a 128-bit integer.
    fn put_i128(&mut self, value: i128);
    /// Appends an IEEE 754 double.
    fn put_f64(&mut self, value: f64);
    /// Appends bytes after their 32-bit length; `None` is length -1. Lengths fit 31 bits.
    fn put_sized(&mut self, bytes: Option<&[u8]>);
    /// Appends a whole number of seven bits a byte, the lowest first.
    fn put_varint(&mut self, value: u64);
    /// Appends bytes after their length as [`ByteWriter::put_varint`] writes it.
    fn put_counted(&mut self, bytes: &[u8]);
    /// Overwrites four bytes at `position`, which were appended before.
    fn patch_i32(&mut self, position: usize, value: i32);
}

impl ByteWriter for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    #[inline]
    fn put_i8(&mut self, value: i8) {
        self.push(value.to_be_bytes()[0]);
    }
    #[inline]
    fn put_i16(&mut self, value: i16) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    #[inline]
    fn put_i32(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    #[inline]
    fn put_i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    #[inline]
    fn put_i128(&mut self, value: i128) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    #[inline]
    fn put_f64(&mut self, value: f64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    #[inline]
    fn put_sized(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.put_i32(-1),
            Some(bytes) => {
                let length = i32::try_from(bytes.len()).expect("a value is far below 2 GiB");
                self.put_i32(length);
                self.extend_from_slice(bytes);
            }
        }
    }
    #[inline]
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
    #[inline]
    fn put_counted(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
    #[inline]
    fn patch_i32(&mut self, position: usize, value: i32) {
        self[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_the_end_is_an_error() {
        let mut bytes = Vec::new();
        bytes.put_i16(-2);
        bytes.put_sized(Some(b"ab"));
        bytes.put_sized(None);
        bytes.put_i128(i128::MIN);
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(reader.i16(), Ok(-2));
        assert_eq!(reader.sized(), Ok(Some(&b"ab"[..])));
        assert_eq!(reader.sized(), Ok(None));
        assert_eq!(reader.i128(), Ok(i128::MIN));
        assert_eq!(reader.u8(), Err(EndOfBytes));
    }

    #[test]
    fn text_is_what_the_standard_check_takes() {
        let long = "a".repeat(40);
        for bytes in ["", "Vote", "hé", "日本語", &long, &format!("{long}é")] {
            assert_eq!(text(bytes.as_bytes()), Some(bytes));
            for cut in 0..bytes.len() {
                let cut = &bytes.as_bytes()[..cut];
                assert_eq!(text(cut), std::str::from_utf8(cut).ok());
            }
        }
        assert_eq!((text(&[0x80]), text(b"ab\xff")), (None, None));
        for length in 1..=SHORT_BYTES + 2 {
            assert!(text(&vec![b'a'; length]).is_some());
            for at in 0..length {
                let mut bytes = vec![b'a'; length];
                bytes[at] = 0x80;
                assert_eq!(text(&bytes), None, "{length} {at}");
            }
        }
    }

    #[test]
    fn varints_are_read_back_and_those_of_more_than_64_bits_refused() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            let mut reader = ByteReader::new(&bytes);
            assert_eq!((reader.varint(), reader.remaining()), (Ok(value), 0));
            assert_eq!(ByteReader::new(&bytes[..bytes.len() - 1]).varint(), Err(EndOfBytes));
        }
        let mut over = vec![0xff; 9];
        over.push(2);
        assert_eq!(ByteReader::new(&over).varint(), Err(EndOfBytes));
        assert_eq!(ByteReader::new(&[0xff; 12]).varint(), Err(EndOfBytes));
        let mut bytes = Vec::new();
        bytes.put_counted(b"abc");
        assert_eq!(ByteReader::new(&bytes).counted(), Ok(&b"abc"[..]));
        assert_eq!(ByteReader::new(&bytes[..3]).counted(), Err(EndOfBytes));
    }

    #[test]
    fn a_length_beyond_the_end_or_below_minus_one_is_an_error() {
        for length in [3i32, -2, i32::MAX, i32::MIN] {
            let mut bytes = Vec::new();
            bytes.put_i32(length);
            bytes.extend_from_slice(b"xy");
            assert_eq!(ByteReader::new(&bytes).sized(), Err(EndOfBytes));
        }
    }
}

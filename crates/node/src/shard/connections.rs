//! The connections of a thread: by their keys, and which of them have something to read or to
//! write.

use crate::connection::{Connection, ConnectionKey};

/// See the module.
#[derive(Default)]
pub(super) struct Connections {
    open: Vec<Option<Connection>>,
    /// By index, how many connections have had it.
    generations: Vec<u32>,
    free: Vec<u32>,
    to_read: Vec<ConnectionKey>,
    /// The empty list that is exchanged with `to_read` while that is gone through.
    spare_list: Vec<ConnectionKey>,
    to_write: Vec<ConnectionKey>,
}

impl Connections {
    /// A connection, if it is open still.
    #[inline]
    pub(super) fn get(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        let connection = self.open.get_mut(key.place as usize)?.as_mut()?;
        (connection.key == key).then_some(connection)
    }

    /// The connection with an index, which is its token in the thread's poll.
    #[inline]
    pub(super) fn at(&mut self, index: usize) -> Option<&mut Connection> {
        self.open.get_mut(index).and_then(Option::as_mut)
    }

    /// A key for a new connection: for [`Connections::open`] or [`Connections::give_back`].
    pub(super) fn reserve(&mut self) -> ConnectionKey {
        let place = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.generations.push(0);
            (self.open.len() - 1) as u32
        });
        ConnectionKey { place, generation: self.generations[place as usize] }
    }

    /// A reserved key is not used.
    pub(super) fn give_back(&mut self, key: ConnectionKey) {
        self.free.push(key.place);
    }

    /// A connection with a reserved key is open.
    pub(super) fn open(&mut self, connection: Connection) {
        let index = connection.key.place as usize;
        assert!(self.open[index].is_none(), "the key was reserved");
        self.open[index] = Some(connection);
    }

    /// Takes a connection out that is to be closed; its key names none from now on.
    pub(super) fn remove(&mut self, key: ConnectionKey) -> Option<Connection> {
        self.get(key)?;
        let index = key.place as usize;
        let connection = self.open[index].take();
        self.generations[index] = self.generations[index].wrapping_add(1);
        self.free.push(key.place);
        connection
    }

    /// All that are open.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.open.iter().flatten()
    }

    /// All that are open.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.open.iter_mut().flatten()
    }

    /// Closes all.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Whether one has something to read.
    #[inline]
    pub(super) fn has_to_read(&self) -> bool {
        !self.to_read.is_empty()
    }

    /// Lists a connection for reading in this or the next round.
    #[inline]
    pub(super) fn list_for_read(&mut self, key: ConnectionKey) {
        let Some(connection) = self.get(key) else { return };
        if !connection.listed_for_read {
            connection.listed_for_read = true;
            self.to_read.push(key);
        }
    }

    /// Lists a connection for writing at the end of this round.
    #[inline]
    pub(super) fn list_for_write(&mut self, key: ConnectionKey) {
        let Some(connection) = self.get(key) else { return };
        if !connection.listed_for_write {
            connection.listed_for_write = true;
            self.to_write.push(key);
        }
    }

    /// Those that were listed for reading; what is listed from now on is for the next round. The
    /// list goes back by [`Connections::end_reading`], empty.
    pub(super) fn begin_reading(&mut self) -> Vec<ConnectionKey> {
        std::mem::replace(&mut self.to_read, std::mem::take(&mut self.spare_list))
    }

    /// See [`Connections::begin_reading`].
    pub(super) fn end_reading(&mut self, list: Vec<ConnectionKey>) {
        self.spare_list = list;
    }

    /// Those that were listed for writing. The list goes back by [`Connections::end_writing`],
    /// empty.
    pub(super) fn begin_writing(&mut self) -> Vec<ConnectionKey> {
        std::mem::take(&mut self.to_write)
    }

    /// See [`Connections::begin_writing`].
    pub(super) fn end_writing(&mut self, list: Vec<ConnectionKey>) {
        self.to_write = list;
    }
}

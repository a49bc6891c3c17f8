//! Tools: the guest's own operations for the host, each in a process of its own with the rights of the work's user.
//! They speak over the streams of an exec: raw bytes, or records. A tool that fails tells the reason in one
//! [`ToolFailure`] on its standard error and exits with 1.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Names and values of all attributes of one file that an answer tells. Some file systems have one block for them.
pub const MOST_ATTRIBUTE_BYTES: usize = 3072;
/// How many directories one watch may cover.
pub const WATCH_LIMIT: usize = 8192;

/// Paths are the kernel's: any bytes but NUL. They are resolved inside, relative to the start's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tool {
    /// Out: one [`Node`], then the bytes. Regular files only.
    Read {
        path: ByteBuf,
        offset: u64,
        length: Option<u64>,
    },
    /// In: pieces, each with its length before it (four bytes, little endian); a piece of length 0 puts the file in
    /// its place. Without that, nothing happens. Out: one [`Node`].
    Write {
        path: ByteBuf,
        mode: Option<u32>,
        parents: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attributes: Vec<Attribute>,
        /// Through links, to a file that the user may write. Since version 4.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        follow: bool,
    },
    /// Out: one [`Resolved`]. Since version 4.
    Resolve {
        path: ByteBuf,
    },
    /// Out: one [`Node`]. A link is not followed.
    Stat {
        path: ByteBuf,
    },
    /// Out: [`ListRecord`]s, in the order of their paths, part by part; the last is `End`.
    List {
        path: ByteBuf,
        recursive: bool,
        /// Relative to `path`: only later entries.
        after: Option<ByteBuf>,
        limit: u32,
    },
    /// Out: one [`Node`].
    MakeDirectory {
        path: ByteBuf,
        mode: Option<u32>,
        parents: bool,
    },
    /// Out: one [`Node`], as it is at its new place.
    Move {
        from: ByteBuf,
        to: ByteBuf,
        overwrite: bool,
    },
    Remove {
        path: ByteBuf,
        recursive: bool,
    },
    /// Out: one [`Node`].
    ChangeMode {
        path: ByteBuf,
        mode: u32,
    },
    /// Out: [`WatchRecord`]s until its input is closed; the first says that the watch is set.
    Watch {
        path: ByteBuf,
        recursive: bool,
    },
    /// Out: a tar of `path`, with names relative to it.
    Pack {
        path: ByteBuf,
    },
    /// In: a tar, unpacked below `path`.
    Unpack {
        path: ByteBuf,
    },
    /// A connection to a port inside. Out: one empty record once it stands, then the bytes.
    Connect {
        port: u16,
    },
    /// Out: a [`LayerEntry`] for everything that the disk itself holds, in no order.
    Manifest,
    /// In: paths below the disk's own root, as records, an empty one at the end. Out: a tar of them.
    PackLayer {
        /// With attributes, holes and names of the same file, for `Merge`.
        exact: bool,
    },
    /// In: paths below the root, as records, an empty one at the end; with `archive`, after them the archive that
    /// `Export` gave of the disk at its start. Out: [`ContentRecord`]s of the files that are or were there, for a
    /// directory of all files below it.
    Contents {
        when: When,
        /// The content of larger files is left out.
        largest: u64,
        archive: bool,
    },
    /// In: [`MergeStep`]s, then a tar of the files to put. Everything is done, or nothing.
    Merge,
    /// Out: a tar of the whole disk, with owners, attributes and the marks that hide parts of the image.
    Export,
    /// In: the archive of `Export`. Only before any work has started.
    Import,
    /// As `Manifest`, for the tree that the disk was cloned from.
    ManifestOfStart,
}

impl Tool {
    /// True if it works on the disk itself, beneath the work's view, with the guest's own rights.
    pub fn is_of_the_disk(&self) -> bool {
        matches!(
            self,
            Tool::Manifest
                | Tool::PackLayer { .. }
                | Tool::Contents { .. }
                | Tool::Merge
                | Tool::Export
                | Tool::Import
                | Tool::ManifestOfStart
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailure {
    pub errno: i32,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeType {
    File,
    Directory,
    Link,
    /// A pipe, socket or device.
    Other,
}

/// One file as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The path of the request; in a list, relative to it.
    pub path: ByteBuf,
    pub kind: NodeType,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_ns: i64,
    pub target: Option<ByteBuf>,
    /// In answers about one file, and in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
    /// Of a link that leads to something, in the same answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<LinkEnd>,
}

/// The file that a link leads to, through any number of links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// Absolute, and without links.
    pub path: ByteBuf,
    pub kind: NodeType,
    pub mode: u32,
}

/// Where a path leads, through all links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// Absolute, without links, `.` and `..`.
    pub path: ByteBuf,
    /// `None`: nothing is there.
    pub node: Option<Node>,
}

/// An extended attribute of the user's namespace, without `user.`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    pub name: String,
    pub value: ByteBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListRecord {
    Entry(Node),
    End { more: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchKind {
    Watching,
    Created,
    Modified,
    Deleted,
    MovedFrom,
    MovedTo,
    Attributes,
    /// The kernel dropped events, or there are more directories than one watch may cover.
    Overflow,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRecord {
    pub kind: WatchKind,
    /// Relative to the watched path; empty for that itself.
    pub path: ByteBuf,
}

/// An entry of the disk's own layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEntry {
    pub node: Node,
    pub changed_ns: i64,
    /// When it was made; 0 where the file system does not know.
    pub born_ns: i64,
    /// The image below has something at this path.
    pub in_image: bool,
    pub inode: u64,
    /// It hides the image's file at this path.
    pub whiteout: bool,
    /// A directory that hides all entries of the image below this path.
    pub opaque: bool,
}

/// A merge's step for a path below the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MergeStep {
    Put(ByteBuf),
    Remove(ByteBuf),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// When the sandbox began: the image, the tree that its disk was cloned from, and the files that the guest itself
    /// wrote.
    Start,
    Now,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentRecord {
    /// Its bytes follow, as pieces, if they are `Given`.
    Found {
        node: Node,
        content: Content,
    },
    Piece(ByteBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    Given,
    /// Neither a file nor a link.
    None,
    Binary,
    TooLarge,
}

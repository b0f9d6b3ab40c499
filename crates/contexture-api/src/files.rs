//! Operations on the files of a tenant that are kept in the store: personas,
//! tools, permissions, recipes and working sets.

use contexture::config;
use contexture::core::ContentHash;
use contexture::store::{ExpectedFile, StoredFile, check_file_path};
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

const PATH: &str = "/v1/files/content";

/// The file of a call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfFile {
    /// The path of the file, relative to the root, such as `persona/SOUL.md`.
    path: String,
}

/// The file to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToDelete {
    /// The path of the file, relative to the root.
    path: String,
    /// The hash that the file must have. Default: any.
    if_hash: Option<String>,
}

/// New content of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewFileContent")]
#[serde(deny_unknown_fields)]
struct NewContent {
    /// The text of the file, at most 1 MiB.
    content: String,
    /// The hash that the file must have now, or an empty string if there must be no such file.
    /// Default: any. With it, the update of another caller is not lost.
    #[serde(default)]
    if_hash: Option<String>,
}

/// The files of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FileList")]
struct FileList {
    /// The files, sorted by path.
    files: Vec<StoredFile>,
}

/// A file with its content.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FileContent")]
struct FileContent {
    /// The file.
    #[serde(flatten)]
    file: StoredFile,
    /// The text of the file.
    content: String,
}

/// A deleted file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedFile")]
struct DeletedFile {
    /// The path of the file.
    deleted: String,
}

fn expected(if_hash: Option<&str>) -> Result<ExpectedFile, Problem> {
    match if_hash {
        None => Ok(ExpectedFile::Any),
        Some("") => Ok(ExpectedFile::Absent),
        Some(hash) => match ContentHash::from_hex(hash) {
            Some(hash) => Ok(ExpectedFile::Hash(hash)),
            None => Err(Problem::unprocessable(
                "must be the `hash` of a file: 64 hexadecimal digits",
            )
            .at("if_hash")),
        },
    }
}

/// Fails for files that only the operator may change.
fn check(path: &str) -> Result<(), Problem> {
    check_file_path(path)?;
    match path.eq_ignore_ascii_case(config::FILE) {
        true => Err(Problem::unprocessable(format!(
            "{} is set by the operator of the server",
            config::FILE
        ))
        .at("path")),
        false => Ok(()),
    }
}

/// Fails if the tenant's files are in a directory.
fn uses_store(tenant: &Tenant) -> Result<(), Problem> {
    match tenant.stored {
        Some(_) => Ok(()),
        None => Err(Problem::unprocessable(
            "the files of this tenant are in a directory of the server",
        )
        .hint("the operator edits them there, or removes the `root` of the tenant")),
    }
}

/// Has this server use a change at once. Others use it within two seconds.
fn refresh(tenant: &Tenant) -> Result<(), Problem> {
    match &tenant.stored {
        Some(stored) => Ok(stored.refresh()?),
        None => Ok(()),
    }
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::new(Method::PUT, PATH, "put_file")
            .describe(
                "Store a file",
                "Stores a file of the tenant: a persona, tools, permissions, a recipe or a working \
                 set. Requests use it as a file in the tenant's root: this server at once, other \
                 servers of the same store within two seconds. With `if_hash`, the call fails with \
                 409 if the file has changed. Needs a tenant without a configured root.",
            )
            .refuses(&[409, 422]),
        |tenant: &Tenant, _: Nothing, of: OfFile, new: NewContent| -> Result<StoredFile, Problem> {
            uses_store(tenant)?;
            check(&of.path)?;
            let expected = expected(new.if_hash.as_deref())?;
            let store = tenant.store()?;
            let stored =
                store.put_file(&of.path, new.content.as_bytes(), expected, tenant.now())?;
            refresh(tenant)?;
            Ok(stored)
        },
    );
    api.add(
        Operation::get("/v1/files", "list_files")
            .describe(
                "List stored files",
                "Returns the files of the tenant that are in the store, without their content.",
            )
            .example("/v1/files", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<FileList, Problem> {
            let files = tenant.store()?.files()?;
            Ok(FileList { files })
        },
    );
    api.add(
        Operation::get(PATH, "get_file")
            .describe(
                "Get a stored file",
                "Returns a file of the tenant that is in the store, with its content.",
            )
            .refuses(&[404, 422]),
        |tenant: &Tenant, _: Nothing, of: OfFile, _: Nothing| -> Result<FileContent, Problem> {
            check(&of.path)?;
            let Some((file, bytes)) = tenant.store()?.file(&of.path)? else {
                return Err(Problem::missing(format!("no stored file `{}`", of.path))
                    .hint("`GET /v1/files` lists the stored files"));
            };
            let content = String::from_utf8(bytes)
                .map_err(|_| Problem::unprocessable(format!("{} is not UTF-8", of.path)))?;
            Ok(FileContent { file, content })
        },
    );
    api.add(
        Operation::new(Method::DELETE, PATH, "delete_file")
            .describe(
                "Delete a stored file",
                "Deletes a file of the tenant from the store, and its copies on the servers. With \
                 `if_hash`, the call fails with 409 if the file has changed.",
            )
            .refuses(&[404, 409, 422]),
        |tenant: &Tenant, _: Nothing, of: ToDelete, _: Nothing| -> Result<DeletedFile, Problem> {
            uses_store(tenant)?;
            check(&of.path)?;
            let expected = expected(of.if_hash.as_deref())?;
            let store = tenant.store()?;
            store.delete_file(&of.path, expected, tenant.now())?;
            refresh(tenant)?;
            Ok(DeletedFile { deleted: of.path })
        },
    );
}

//! Portable archives over the admin API: a store, or one tenant, out and in. The
//! server streams them.

use contexture::archive::Imported;

use crate::admin::OfTenant;
use crate::operation::{Api, Nothing, Operation, ResponseBody};

/// The media type of an archive.
pub const MEDIA: &str = "application/zstd";

pub(crate) fn add(api: &mut Api) {
    const ALL: &str = "/v1/admin/archive";
    const ONE: &str = "/v1/admin/tenants/{tenant}/archive";
    let mut export = Operation::get(ALL, "admin_export_archive").describe(
        "Export everything",
        "Streams a portable archive of the whole store: all tenants, the hashes of API keys, \
         quotas and the audit log. The archive is Zstandard-compressed and has hashes of all \
         parts. If the export fails after its first bytes, the connection is closed, and the \
         archive is refused as truncated. Needs an admin key.",
    );
    export.response = ResponseBody::Binary(MEDIA);
    api.add_stream::<Nothing, Nothing, Nothing>(export);
    let mut export = Operation::get(ONE, "admin_export_tenant")
        .describe(
            "Export a tenant",
            "Streams a portable archive of the data of one tenant, without its API keys. Needs an \
             admin key.",
        )
        .refuses(&[404, 422]);
    export.response = ResponseBody::Binary(MEDIA);
    api.add_stream::<OfTenant, Nothing, Nothing>(export);
    let mut import = Operation::post(ALL, "admin_import_archive")
        .describe(
            "Import everything",
            "Imports a portable archive. The server checks the whole archive first. A tenant that \
             has other data is a conflict, and nothing is changed. A tenant that has exactly this \
             data is left as it is. Each tenant is imported as a whole or not at all. Needs an \
             admin key.",
        )
        .refuses(&[408, 409, 413, 422]);
    import.takes.binary = Some(MEDIA);
    import.response = ResponseBody::Json(api.outputs.subschema_for::<Imported>());
    api.add_stream::<Nothing, Nothing, Nothing>(import);
    let mut import = Operation::post(ONE, "admin_import_tenant")
        .describe(
            "Import a tenant",
            "Imports the only tenant of a portable archive under the name in the path. The tenant \
             must have no data, or exactly this data. Needs an admin key.",
        )
        .refuses(&[408, 409, 413, 422]);
    import.takes.binary = Some(MEDIA);
    import.response = ResponseBody::Json(api.outputs.subschema_for::<Imported>());
    api.add_stream::<OfTenant, Nothing, Nothing>(import);
}

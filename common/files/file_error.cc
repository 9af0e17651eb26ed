#include "common/files/file_error.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace muster {

absl::Status FileError(absl::string_view operation, absl::string_view path, int error_number) {
  const std::string what = absl::StrCat("cannot ", operation, " ", path, ": ",
                                        std::generic_category().message(error_number));
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(
          absl::StrCat(what, "; free space there (or raise the quota), then try again"));
    case EFBIG:
      return absl::ResourceExhaustedError(
          absl::StrCat(what, "; raise the limit on the size of files (ulimit -f)"));
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(
          absl::StrCat(what, "; raise the limit on open files (ulimit -n)"));
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(what);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(
          absl::StrCat(what, "; let this process's user write there"));
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
      return absl::FailedPreconditionError(absl::StrCat(what, "; name another file"));
    default:
      return absl::UnavailableError(what);
  }
}

}  // namespace muster

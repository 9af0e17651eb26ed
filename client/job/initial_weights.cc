#include "client/job/initial_weights.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"

namespace muster {

bool IsWeightsFolder(const std::string& name) {
  return absl::StrContains(name, "/") && !absl::StartsWith(name, "file://");
}

absl::StatusOr<std::string> ResolveInitialWeights(const std::string& name) {
  if (!IsWeightsFolder(name)) return name;
  std::string folder = std::filesystem::absolute(name).lexically_normal().string();
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const LocalStorage storage;
  const absl::Status manifest = ReadManifest(storage, folder).status();
  if (absl::IsNotFound(manifest)) {
    return absl::NotFoundError(
        absl::StrCat("initial_weights is \"", name, "\", but ", folder,
                     " holds no complete checkpoint; name a job, or a folder that `muster import` "
                     "wrote"));
  }
  MUSTER_RETURN_IF_ERROR(manifest);
  return folder;
}

}  // namespace muster

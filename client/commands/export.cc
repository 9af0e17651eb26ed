#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/commands.h"
#include "client/commands/job_argument.h"
#include "client/format.h"
#include "client/session.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

absl::Status Export(const Session& session, JobClient& jobs, const std::string& job_id,
                    const std::string& out) {
  const std::string partial = out + ".partial";
  std::ofstream file(partial, std::ios::binary);
  if (!file) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", partial, "; choose another --out"));
  }
  uint64_t bytes = 0;
  absl::Status status = jobs.Export(job_id, [&](absl::string_view data) -> absl::Status {
    bytes += data.size();
    if (file.write(data.data(), static_cast<std::streamsize>(data.size()))) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot write ", partial, " past ", bytes, " bytes"));
  });
  file.close();
  if (status.ok() && std::rename(partial.c_str(), out.c_str()) != 0) {
    status = absl::InternalError(absl::StrCat("cannot rename ", partial, " to ", out));
  }
  if (!status.ok()) {
    std::remove(partial.c_str());
    return status;
  }
  session.PrintResult(absl::StrCat(out, ": ", FormatBytes(static_cast<double>(bytes))),
                      {{"job_id", job_id}, {"file", out}, {"bytes", absl::StrCat(bytes)}});
  return absl::OkStatus();
}

}  // namespace

void AddExport(CLI::App& app, Session& session) {
  auto out = std::make_shared<std::string>();
  auto* command = AddJobCommand(
      app, session, "export", "Write the weights of a job's last checkpoint in safetensors' format",
      [out](Session& session, JobClient& jobs, const std::string& job_id) {
        return Export(session, jobs, job_id, *out);
      });
  command->add_option("--out", *out, "The file to write")->required();
  command->footer("Example: muster export JOB --out weights.safetensors");
}

}  // namespace muster

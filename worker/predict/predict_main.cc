// `muster predict` runs this: predicts the labels of a file's examples with trained weights.
//
//   muster-predict MODEL --job FILE --job-id JOB --out FILE [--force] [--threads N] [--json]
//
// MODEL is a file of `muster export`. The job is a serialized v1::JobSpec; its data are the
// examples to predict, whatever of them it held out. What was written is told on standard output,
// with --json as one object; errors go to standard error (common/daemon/report_failure.h). Exit
// codes are `muster`'s.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "common/daemon/report_failure.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/kernels/matmul.h"
#include "common/text/dump_json.h"
#include "common/text/format_count.h"
#include "common/text/printable.h"
#include "proto/job.pb.h"
#include "worker/predict/write_predictions.h"

namespace muster {
namespace {

struct Flags {
  std::string model;
  std::string job;
  std::string job_id;
  std::string out;
  bool force = false;
  int threads = 0;
  bool json = false;
};

absl::StatusOr<v1::JobSpec> ReadJob(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const FileContent file, FileContent::Open(path));
  v1::JobSpec spec;
  if (spec.ParseFromArray(file.bytes().data(), static_cast<int>(file.bytes().size()))) return spec;
  return absl::InvalidArgumentError(absl::StrCat(path, " holds no job"));
}

absl::Status Run(const Flags& flags) {
  MUSTER_ASSIGN_OR_RETURN(const v1::JobSpec spec, ReadJob(flags.job));
  SetComputeThreads(flags.threads > 0 ? flags.threads : UsableProcessors());
  const Replace replace = flags.force ? Replace::kFiles : Replace::kNever;
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(flags.out, replace));
  // Made once the data are open, so that a pattern does not find it among them.
  std::unique_ptr<OutputFile> file;
  const auto write = [&](absl::string_view text) -> absl::Status {
    if (file == nullptr) {
      MUSTER_ASSIGN_OR_RETURN(file, OutputFile::Create(flags.out, replace));
    }
    return file->Write(text);
  };
  MUSTER_ASSIGN_OR_RETURN(const int64_t examples, WritePredictions(spec, flags.model, write));
  MUSTER_RETURN_IF_ERROR(file->Publish());
  if (flags.json) {
    const nlohmann::ordered_json object = {
        {"job_id", flags.job_id}, {"file", flags.out}, {"examples", absl::StrCat(examples)}};
    std::printf("%s\n", PrintableJson(DumpJson(object)).c_str());
  } else {
    std::printf("%s: %s row%s\n", PrintableLine(flags.out).c_str(), FormatCount(examples).c_str(),
                examples == 1 ? "" : "s");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  CLI::App app("Predicts the labels of a file's examples with trained weights.", "muster-predict");
  muster::Flags flags;
  app.add_option("model", flags.model, "File of `muster export`")->required();
  app.add_option("--job", flags.job, "File with the job, as a serialized JobSpec")->required();
  app.add_option("--job-id", flags.job_id, "The job's id, for --json");
  app.add_option("--out", flags.out, "File to write")->required();
  app.add_flag("--force", flags.force, "Replace a file that is there");
  app.add_option("--threads", flags.threads, "Threads to compute with; 0: one per core");
  app.add_flag("--json", flags.json, "Print one object at the end: job_id, file, examples");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::ReportFailure(muster::Run(flags),
                               flags.json ? muster::ReportForm::kJson : muster::ReportForm::kText);
}

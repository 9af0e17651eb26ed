#include "client/job/transformer_job.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/documents/source_options.h"
#include "common/job/sequence_sources.h"
#include "common/job_data/job_tokenizer.h"
#include "common/job_data/source_arguments.h"
#include "common/model_files/model_file.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {

absl::Status ExportJob(JobClient& jobs, const v1::CheckpointRequest& checkpoint,
                       const std::string& tokenizer,
                       const std::function<void(const std::string&)>& note,
                       const std::function<absl::Status(absl::string_view)>& sink) {
  v1::JobStatus job;
  MUSTER_RETURN_IF_ERROR(jobs.Get(checkpoint.job_id(), job));
  if (!job.spec().model().has_transformer()) return jobs.Export(checkpoint, sink);
  const absl::StatusOr<std::unique_ptr<const Tokenizer>> opened =
      tokenizer.empty() ? JobTokenizer(job.spec().data()) : OpenTokenizer(tokenizer);
  if (!opened.ok() && !tokenizer.empty()) return opened.status();
  const auto describe =
      [&](const MetadataInserter::Metadata& present) -> absl::StatusOr<MetadataInserter::Metadata> {
    absl::Status usable = opened.status();
    if (const auto learned = TokenizerOfMetadata(present); usable.ok() && learned.has_value()) {
      usable = CheckSameTokenizer(
          absl::StrCat("job ", checkpoint.job_id()), *learned,
          {(*opened)->fingerprint(),
           tokenizer.empty() ? "what lies there on this machine now" : tokenizer});
    }
    if (!usable.ok() && !tokenizer.empty()) return usable;
    std::optional<std::string> json;
    if (usable.ok()) {
      json = (*opened)->json();
    } else {
      note(absl::StrCat("without a tokenizer, because the job's was not found here: ",
                        usable.message(), "; --tokenizer names where it is"));
    }
    MetadataInserter::Metadata added = ModelFileMetadata(job.spec().model().transformer(), json);
    if (job.spec().has_adapter()) AddAdapter(job.spec().adapter(), added);
    return added;
  };
  MetadataInserter inserter(describe, sink);
  return jobs.Export(checkpoint,
                     [&inserter](absl::string_view data) { return inserter.Write(data); });
}

std::string ChatFolderOf(const v1::DataSpec& data) {
  for (const v1::SequenceData* source : SequenceSources(data)) {
    const SourceArguments arguments = SourceArgumentsOf(*source);
    if (!arguments.model.empty()) return arguments.model;
    if (!source->tokenizer().empty() && source->tokenizer() != "bytes") {
      return ChatTemplateFolder(arguments, source->tokenizer());
    }
  }
  return "";
}

absl::Status RequireTransformer(const v1::JobSpec& spec, const std::string& job_id,
                                absl::string_view asked_for) {
  if (spec.model().has_transformer()) return absl::OkStatus();
  const google::protobuf::FieldDescriptor* const field =
      v1::ModelSpec::descriptor()->FindFieldByNumber(spec.model().model_case());
  return absl::InvalidArgumentError(absl::StrCat("job ", job_id, " trains a model ",
                                                 field == nullptr ? "none" : field->name(), "; ",
                                                 asked_for, " takes a transformer"));
}

}  // namespace muster

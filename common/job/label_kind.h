#ifndef MUSTER_COMMON_JOB_LABEL_KIND_H_
#define MUSTER_COMMON_JOB_LABEL_KIND_H_

namespace muster {

// The kind of label that examples have.
enum class LabelKind {
  // Which class the example is of, or which token follows.
  kClass,
  // A number to predict.
  kNumber,
};

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_LABEL_KIND_H_

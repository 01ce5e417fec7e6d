/** @file
 * Experimental functions of Plait: no promise at all. They may change or go at any version.
 */
#ifndef PLAIT_PLAIT_EXPERIMENTAL_H
#define PLAIT_PLAIT_EXPERIMENTAL_H

#include "plait/plait.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Gives back what it gets, so that a binding can prove that nothing is lost on the way. `text` ends
 * in NUL and must be UTF-8; `data` has `bytes` bytes and may be NULL when that is 0.
 * @since 0.1 @threads A @collective no @owns text_out,data_out @lifecycle experimental
 */
PLAIT_API int32_t PLAIT_CALL plait_x_echo(int64_t integer, double real, const char* text,
                                          const void* data, int64_t bytes, int64_t* integer_out,
                                          double* real_out, plait_bytes** text_out,
                                          plait_bytes** data_out, plait_error** err);

#ifdef __cplusplus
}
#endif

#endif /* PLAIT_PLAIT_EXPERIMENTAL_H */

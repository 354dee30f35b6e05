/* finalize.h — the end of the job, and whether it may pass for a success. */
#ifndef THALWEG_FINALIZE_H
#define THALWEG_FINALIZE_H

/* 0, or the code the process must end with because a commit failed after its file was closed. */
extern int exit_code_wanted;

#endif

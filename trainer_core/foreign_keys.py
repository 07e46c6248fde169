"""What other trainers call our options, so that an unknown key gets a helpful answer."""

from __future__ import annotations

FOREIGN_KEYS: dict[str, str] = {
    # mlx-lm
    "lora_parameters": (
        "Write its rank, scale and dropout as options of their own; its keys are target_modules"
    ),
    "train": "Leave it out: `python -m trainer_core train` always trains",
    "test": "Leave it out: validation rows are evaluated at the start and at the end",
    "test_batches": "Leave it out: validation rows are evaluated at the start and at the end",
    "adapter_path": "Use output for the folder of runs and run_name for the run's own name",
    "resume_adapter_file": "Use warm_start with the adapter's folder",
    "lora_layers": "Use num_layers",
    "val_batches": "Use val_rows, which counts rows",
    "mask_prompt": "Use loss_on: assistant (prompt masked) or everything",
    "optimizer_config": "Use weight_decay, adam_betas and adam_eps",
    "hf_dataset": "Use data with a local file",
    "report_to": "Leave it out: every report is in the run folder's events.jsonl",
    "project_name": "Leave it out: every report is in the run folder's events.jsonl",
    # PEFT and TRL
    "r": "Use rank",
    "lora_r": "Use rank",
    "lora_rank": "Use rank",
    "alpha": "Use scale = alpha / rank",
    "lora_alpha": "Use scale = alpha / rank",
    "lora_dropout": "Use dropout",
    "use_dora": "Use fine_tune_type",
    "use_rslora": "Use rs_lora",
    "model_name_or_path": "Use model",
    "dataset_name": "Use data with a local file",
    "train_file": "Use data",
    "validation_file": "Use valid_data",
    "max_steps": "Use iters",
    "num_train_epochs": "Use epochs",
    "per_device_train_batch_size": "Use batch_size",
    "gradient_accumulation_steps": "Use grad_accumulation_steps",
    "gradient_checkpointing": "Use grad_checkpoint",
    "max_length": "Use max_seq_length",
    "max_grad_norm": "Use grad_clip",
    "lr": "Use learning_rate",
    "lr_scheduler_type": "Use lr_schedule",
    "warmup": "Use warmup_steps",
    "logging_steps": "Use steps_per_report",
    "eval_steps": "Use steps_per_eval",
    "save_steps": "Use save_every",
    "save_total_limit": "Use keep_checkpoints",
    "output_dir": "Use output for the folder of runs and run_name for the run's own name",
    "beta": "Use orpo_lambda for ORPO, dpo_beta for DPO",
    "optim": "Use optimizer",
}
